"""The loop and the real service, in process: jobs that outlast their prediction."""

import time
from dataclasses import replace
from types import SimpleNamespace

import pytest

from data.domain import FinishedJob, Outcome
from data.joblog import JobLog
from data.jobs_frame import jobs_frame
from pipelines.runtime.training import train_runtime
from scheduler_client.forecast.client import PredictorClient
from scheduler_client.forecast.degrade import Forecaster
from scheduler_client.forecast.exchange import Answer, Exchange
from scheduler_client.loop import SchedulerLoop
from serving.live.history_state import HistoryState
from serving.metrics import Metrics
from serving.predictor import Predictor
from serving.web.api import Api
from serving.web.tokens import Tokens
from tests.scheduler_client.test_loop import Bench
from tests.serving.caller import Caller

EPOCH = 1_000_000.0
SHORT_S, LONG_S = 60.0, 3600.0


@pytest.fixture(scope="module")
def finished():
    """What ada ran: two thirds of her jobs take a minute, the others an hour."""
    jobs = []
    for n in range(90):
        start, lasts = EPOCH - 90_000.0 + 900.0 * n, LONG_S if n % 3 == 0 else SHORT_S + n % 7
        moments = (start, start, start + lasts)
        jobs.append(FinishedJob(f"f{n}", 1, "ada", "ada", "bert", 1, *moments, Outcome.OK))
    return jobs


@pytest.fixture
def service(finished, tmp_path, monkeypatch):
    """Return the address of a service in process; it knows what ada ran."""
    cluster, user, _, _ = train_runtime(jobs_frame(finished), seed=0)
    bundles = {
        each.spec.name: replace(each, version=f"{each.spec.name}/1") for each in (cluster, user)
    }
    with JobLog(f"sqlite:///{tmp_path / 'joblog.db'}") as log:
        history = HistoryState(lambda: log)
        history.append(finished)
        predictor = Predictor(bundles, history.features)
        call = Caller(Api(Metrics(), Tokens(), SimpleNamespace(predictor=lambda: predictor)))

        def send(exchange, method, path, body, deadline_s):
            status, _, answer = call(path, body, method, is_json=False)
            return Answer(status, answer)

        monkeypatch.setattr(Exchange, "send", send)
        yield "http://in.process"


@pytest.fixture
def bench(service, tmp_path, a_card, monkeypatch):
    bench = Bench(tmp_path, a_card)
    clock = SimpleNamespace(time=lambda: bench.now, monotonic=time.monotonic, sleep=time.sleep)
    monkeypatch.setattr("scheduler_client.loop.time", clock)
    asked = replace(bench.config.settings.prediction, deadline_s=60.0, budget_s=60.0, fresh_s=0.0)
    forecaster = Forecaster(PredictorClient(service, 60.0), asked, bench.parts.remembered.profiles)
    bench.now, bench.loop = EPOCH, SchedulerLoop(replace(bench.parts, forecaster=forecaster))
    yield bench
    bench.close()


def test_a_job_past_its_prediction_does_not_count_as_about_to_end(bench):
    bench.submit()
    bench.loop.cycle()
    (began,) = bench.loop._running_jobs()
    assert began.runtime.model_version == "colocast-runtime-user/1"
    bench.now = EPOCH + 5 * began.runtime.value
    (outlasting,) = bench.loop.cycle().view.running
    assert outlasting.runtime.value > 5.5 * began.runtime.value
