"""Fixtures that every folder's tests share."""

import shutil
from pathlib import Path

import pytest

from data.settings import Settings


@pytest.fixture(scope="session")
def mlflow_template(tmp_path_factory) -> Path:
    """Build one migrated MLflow database; copying it is a hundred times quicker."""
    import mlflow

    path = tmp_path_factory.mktemp("mlflow") / "template.db"
    mlflow.MlflowClient(tracking_uri=f"sqlite:///{path}").search_experiments()
    return path


@pytest.fixture
def settings(tmp_path, mlflow_template) -> Settings:
    """Settings of an empty installation with a ready MLflow database."""
    home = tmp_path / "home"
    home.mkdir()
    shutil.copy(mlflow_template, home / "mlflow.db")
    return Settings.from_mapping({"COLOCAST_HOME": str(home)}, tmp_path)


@pytest.fixture(scope="session")
def public_data() -> Path:
    """The folder of public data beside the checkout; skips where it is absent."""
    path = Path(__file__).resolve().parents[2] / "shared" / "data"
    if not path.is_dir():
        pytest.skip(f"no public data at {path.name}/: these sets are not distributed with colocast")
    return path


@pytest.fixture(scope="session")
def finished_jobs():
    """Make JOBS frames: three users whose runtimes follow their job keys."""
    import numpy as np
    import pandas as pd

    from data.schemas import JOBS, checked

    def make(n: int, seed: int = 0, span_s: float = 10 * 86_400.0) -> pd.DataFrame:
        rng = np.random.default_rng(seed)
        key = rng.integers(0, 6, n)
        submit_time = 1.6e9 + np.sort(rng.uniform(0, span_s, n)).round()
        runtime_s = np.maximum(np.exp(4 + key + rng.normal(0, 0.3, n)).round(), 1)
        jobs = pd.DataFrame(
            {
                "job_id": [f"job-{i}" for i in range(n)],
                "attempt": 0,
                "user": np.array(["ada", "bob", "eve"])[key % 3],
                "queue": np.array(["vision", "speech"])[key % 2],
                "job_key": np.array([f"key-{i}" for i in range(6)])[key],
                "gpus": key % 3,
                "cpus": 4.0,
                "limit_s": np.where(key < 5, 86_400.0, np.nan),
                "submit_time": submit_time,
                "start_time": submit_time + 60,
                "finish_time": submit_time + 60 + runtime_s,
                "runtime_s": runtime_s,
                "outcome": "ok",
            }
        )
        return checked(jobs, JOBS, "made jobs")

    return make


@pytest.fixture(scope="session")
def toy_replay():
    """Replay a few jobs ``(arrival, runtime, gpus, queue, workload)`` on a small pool."""
    import numpy as np

    from scheduler_client.replay.eventlog import EventLog
    from scheduler_client.replay.simulation import Costs, Simulation, Site
    from scheduler_client.replay.trace import Trace
    from scheduler_client.replay.truth import GroundTruth

    def make(jobs, cards=2, slowdown=((1.0,),), quotas=None, costs=Costs()):  # noqa: B008
        columns = list(zip(*jobs, strict=True))
        queues = max(columns[3]) + 1
        trace = Trace(
            tuple(f"job-{index}" for index in range(len(jobs))),
            np.array(columns[0], np.float64),
            np.array(columns[1], np.float64),
            *(np.array(column, np.int64) for column in columns[2:]),
            tuple(f"queue-{index}" for index in range(queues)),
        )
        matrix = np.array(slowdown, np.float64)
        yes = np.ones(matrix.shape, bool)
        names = tuple(f"workload-{index}" for index in range(len(matrix)))
        truth = GroundTruth(matrix, yes, yes, np.full(len(matrix), 0.5), names)
        site = Site(cards, quotas or (cards,) * queues, 8, costs)
        return Simulation(trace, site, truth, EventLog())

    return make


@pytest.fixture(scope="session")
def runs_of():
    """Make profiling runs of some workloads and all their pairs, which share a card's time."""
    import numpy as np
    import pandas as pd

    from data.schemas import PROFILING_RUNS, checked

    def make(count=8, seed=3):
        """Profiling runs of `count` workloads and all their pairs: they share a card's time."""
        rng = np.random.default_rng(seed)
        busy = np.linspace(0.1, 0.9, count)
        rows = [run(f"alone-{i}", i, None, busy[i], 100.0) for i in range(count)]
        for i in range(count):
            for k in range(count):
                speed = 100.0 / max(1.0, busy[i] + busy[k]) * rng.uniform(0.97, 1.0)
                rows.append(run(f"pair-{i}-{k}", i, k, None, speed))
        return checked(pd.DataFrame(rows), PROFILING_RUNS, "made runs")

    def run(run_id, job, neighbour, busy, speed):
        return {
            "run_id": run_id,
            "job_key": f"w{job}",
            "family": f"f{job}",
            "gpu_model": "card",
            "neighbour_key": None if neighbour is None else f"w{neighbour}",
            "neighbour_run_id": None,
            "is_exclusive": neighbour is None,
            "steps_per_s": speed,
            "gpu_util_mean": busy,
            "gpu_mem_mib_mean": 4000.0 if neighbour is None else None,
            "outcome": "ok",
        }

    return make
