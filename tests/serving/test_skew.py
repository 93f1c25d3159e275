"""What training would see and what the service sees of the same sample are the same rows."""

import json
from dataclasses import replace

import numpy as np
import pytest

from data.domain import FinishedJob, JobRequest, Outcome
from data.joblog import JobLog
from data.sample_data import sample_runs
from data.wire import from_json, to_json
from features.history import RuntimeHistory
from features.pairs import pair_features
from features.profiles import profiles as profiles_of
from pipelines.labelling.from_runs import jobs_from_runs
from pipelines.runtime.training import train_runtime
from serving.champions.cache import ModelCache
from serving.forest.check import with_compiled_forest
from serving.inference.bundle import Bundle, interval_frame
from serving.inference.runtime import runtime_estimates
from serving.live.history_state import HistoryState
from serving.metrics import Metrics
from serving.predictor import Predictor
from serving.state import ServingState
from serving.web.api import Api
from serving.web.tokens import Tokens
from serving.web.wire_models import RuntimeRequest
from serving.web.wire_schema import Reader
from tests.serving.caller import Caller
from tests.serving.conftest import interference_bundle

USERS, QUEUES = ("ada", "bob", "eve"), ("research", "production")


@pytest.fixture(scope="module")
def jobs():
    """The sample's exclusive runs as jobs, in the order in which they finished.

    Seconds apart: a history tells ages from a second after the newest job.
    """
    frame = jobs_from_runs(sample_runs()).sort_values("finish_time", ignore_index=True)
    turn = np.arange(len(frame))
    moments = ["submit_time", "start_time", "finish_time"]
    frame[moments] += 3.0 * turn[:, None]
    return frame.assign(
        user=[USERS[n % 3] for n in turn],
        queue=[QUEUES[n % 2] for n in turn],
        limit_s=np.where(turn % 4 == 0, np.nan, 60.0 + turn),
        cpus=np.where(turn % 5 == 0, np.nan, 2.0),
    )


def finished(row):
    names = ("job_id", "user", "queue", "job_key", "submit_time", "start_time", "finish_time")
    known = {name: getattr(row, name) for name in names}
    optional = {n: getattr(row, n) for n in ("cpus", "limit_s") if not np.isnan(getattr(row, n))}
    if "cpus" in optional:
        optional["cpus"] = int(optional["cpus"])
    return FinishedJob(
        attempt=int(row.attempt),
        gpus=int(row.gpus),
        outcome=Outcome(row.outcome),
        **known,
        **optional,
    )


def request_of(job):
    names = ("job_id", "user", "queue", "job_key", "submit_time", "gpus", "cpus", "limit_s")
    return JobRequest(**{name: getattr(job, name) for name in names})


def test_runtime_features_equal_those_of_training(jobs, tmp_path):
    """Each job is asked for once all that finished before its submission is in the log."""
    jobs = jobs.head(60)
    history = RuntimeHistory()
    history.observe(jobs)
    offline = history.transform(jobs, jobs["submit_time"].to_numpy(np.float64))
    online = []
    with JobLog(f"sqlite:///{tmp_path / 'joblog.db'}") as log:
        state = HistoryState(lambda: log)
        for row in jobs.itertuples():
            job = finished(row)
            asked = Reader(RuntimeRequest).read(
                json.dumps({"jobs": [to_json(request_of(job))]}).encode()
            )
            online.append(state.features(asked.jobs).to_numpy()[0])
            state.append([job])
    # Equal but for the order in which numpy sums one row or many.
    np.testing.assert_allclose(np.array(online), offline.to_numpy(), rtol=1e-9, atol=1e-12)


def test_running_jobs_tell_the_service_what_they_tell_training(jobs, tmp_path):
    """Every third job lasts half a minute longer, so that others are asked for beside it."""
    jobs = jobs.head(60).copy()
    jobs.loc[::3, ["runtime_s", "finish_time"]] += 30.0
    jobs = jobs.sort_values("submit_time", ignore_index=True)
    history = RuntimeHistory()
    history.observe(jobs)
    beside = 0
    for row in jobs.itertuples():
        moment = row.submit_time
        ended = jobs[jobs["finish_time"] < moment]
        # Without a moment, a history tells ages from a second after the newest job.
        if ended.empty or ended["finish_time"].max() > moment - 1:
            continue
        runs = jobs[jobs["start_time"].lt(moment) & jobs["finish_time"].ge(moment)]
        running = [
            replace(request_of(finished(other)), elapsed_s=moment - other.start_time)
            for other in runs.itertuples()
        ]
        with JobLog(f"sqlite:///{tmp_path / f'{row.Index}.db'}") as log:
            state = HistoryState(lambda log=log: log)
            state.append([finished(other) for other in ended.itertuples()])
            online = state.features([request_of(finished(row))], running).to_numpy()
        offline = history.transform(jobs.loc[[row.Index]], np.array([moment])).to_numpy()
        np.testing.assert_allclose(online, offline, rtol=1e-9, atol=1e-12)
        beside += len(running)
    assert beside > 10


def test_runtime_estimates_equal_those_of_the_core(jobs, tmp_path):
    cluster, user, _, _ = train_runtime(jobs, seed=0)
    bundles = {
        "colocast-runtime-cluster": replace(cluster, version="colocast-runtime-cluster/1"),
        "colocast-runtime-user": replace(user, version="colocast-runtime-user/1"),
    }
    requests = [request_of(finished(row)) for row in jobs.head(9).itertuples()]
    with JobLog(f"sqlite:///{tmp_path / 'joblog.db'}") as log:
        state = HistoryState(lambda: log)
        state.append([finished(row) for row in jobs.itertuples()])
        estimates = Predictor(bundles, state.features).runtimes(requests)
        rows = state.features(requests)
    offline = runtime_estimates(cluster, user, rows, np.zeros(len(requests)))
    assert [estimate.value for estimate in estimates] == offline["value"].tolist()
    assert [estimate.upper for estimate in estimates] == offline["upper"].tolist()
    assert {estimate.model_version for estimate in estimates} == {"colocast-runtime-user/1"}


@pytest.fixture(scope="module")
def measured():
    """A model of the sample's own profiles, and all their pairs."""
    import pandas as pd

    profiles = profiles_of(sample_runs())
    keys = [
        (key, model) for key, model in zip(profiles["job_key"], profiles["gpu_model"], strict=True)
    ]
    rows = [(a, b, model) for a, model in keys for b, other in keys if model == other]
    pairs = pd.DataFrame(rows, columns=["job_key", "neighbour_key", "gpu_model"])
    return profiles, pairs


def test_slowdowns_through_the_service_equal_the_model_on_offline_features(measured, tmp_path):
    profiles, pairs = measured
    bundle: Bundle = replace(
        interference_bundle(profiles, pairs, 0.0), version="colocast-interference/1"
    )
    features = pair_features(profiles, pairs)
    raw = bundle.predict(features.to_numpy(np.float64))
    offline = interval_frame(bundle.spec, raw, features, pairs["gpu_model"])

    state = ServingState(None, ModelCache(tmp_path), lambda: None, Metrics())
    predictor = Predictor({"colocast-interference": with_compiled_forest(bundle)}, None)
    state.predictor = lambda: predictor
    document = {"pairs": pairs.to_dict("records")}
    status, _, answer = Caller(Api(Metrics(), Tokens(), state))("/v1/slowdown", document)
    assert status == 200
    for name in ("value", "lower", "upper"):
        online = [estimate[name] for estimate in answer["estimates"]]
        np.testing.assert_allclose(online, offline[name], rtol=0, atol=1e-9)


def test_a_request_survives_the_wire_bit_by_bit(jobs):
    request = request_of(finished(next(jobs.itertuples())))
    body = json.dumps({"jobs": [to_json(request)]}).encode()
    assert Reader(RuntimeRequest).read(body).jobs == (request,)
    assert from_json(JobRequest, json.loads(body)["jobs"][0]) == request
