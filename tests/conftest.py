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
