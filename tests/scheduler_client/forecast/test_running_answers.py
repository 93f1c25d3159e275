import json
import logging
from dataclasses import replace

import pytest

from data.domain import Estimate, Source
from data.errors import PredictionRefusedError, PredictionUnavailableError
from scheduler_client.config import PredictionSettings
from scheduler_client.forecast.asking import Asking
from scheduler_client.forecast.running_answers import MOST_ASKED, RunningAnswers
from scheduler_client.policy.view import RunningJob
from serving.web.limits import LIMITS

FRESH_S = 5.0


class Twice:
    """Says of every job that it will last twice as long as it has."""

    def __init__(self) -> None:
        self.error: Exception | None = None
        self.version = "m/1"
        self.asked: list[tuple[list[str], list[str]]] = []

    def runtimes(self, jobs, running=(), within_s=None):
        self.asked.append(([job.job_id for job in jobs], [job.job_id for job in running]))
        if self.error:
            raise self.error
        return tuple(
            Estimate(2 * s, s, 9 * s, self.version, Source.USER_MODEL)
            for s in (job.elapsed_s for job in jobs)
        )


class Desk:
    """The answers under test, with a clock that is also the cluster's."""

    def __init__(self, a_job) -> None:
        self.a_job, self.predictor, self.now = a_job, Twice(), 0.0
        settings = PredictionSettings(fresh_s=FRESH_S)
        self.answers = RunningAnswers(self.predictor, settings, lambda: self.now)

    def job(self, job_id: str = "1", start_time: float = 0.0) -> RunningJob:
        asked = self.a_job(job_id)
        return RunningJob(
            job_id, asked.user, asked.queue, asked.job_key, (), start_time, request=asked
        )

    def at(self, now: float, *running: RunningJob, left_s: float = 1.0, left_unknown=False):
        """Return what is predicted anew at a moment."""
        self.now = now
        self.asking = Asking(now + left_s)
        self.asking.left_unknown = left_unknown
        return self.answers.repredicted(running, now, self.asking)


@pytest.fixture
def desk(a_job):
    return Desk(a_job)


def test_a_job_that_lasts_is_predicted_by_how_long_it_has_lasted(desk):
    found = desk.at(300.0, desk.job("1"), desk.job("2", 200.0))
    assert {job_id: estimate.value for job_id, estimate in found.items()} == {"1": 600, "2": 200}
    assert desk.predictor.asked == [(["1", "2"], ["2", "1"])]


def test_a_job_is_asked_about_again_once_it_has_lasted_a_tenth_longer(desk):
    desk.at(1000.0, desk.job())
    assert desk.at(1095.0, desk.job()) == {}
    assert desk.at(1101.0, desk.job())["1"].value == 2202.0
    assert len(desk.predictor.asked) == 2


def test_a_job_that_has_just_started_is_not_asked_about(desk):
    assert desk.at(1004.0, desk.job(start_time=1000.0)) == {}
    assert desk.predictor.asked == []


def test_a_job_of_a_day_is_asked_about_less_than_a_hundred_times(desk):
    for now in range(0, 86_400, 5):
        desk.at(float(now), desk.job())
    assert 50 < len(desk.predictor.asked) < 100


def test_one_question_of_bounded_size_is_asked_at_a_time(desk):
    running = [desk.job(str(n)) for n in range(MOST_ASKED + 10)]
    assert len(desk.at(100.0, *running)) == MOST_ASKED
    assert desk.at(104.0, *running) == {}
    assert set(desk.at(105.0, *running)) == {str(MOST_ASKED + n) for n in range(10)}
    assert LIMITS["RuntimeRequest", "jobs"].most >= MOST_ASKED


def test_waiting_jobs_that_nobody_knows_go_first_for_a_while(desk):
    assert desk.at(FRESH_S - 1, desk.job(start_time=-1000.0), left_unknown=True) == {}
    assert desk.at(FRESH_S, desk.job(start_time=-1000.0), left_unknown=True).keys() == {"1"}


def test_another_attempt_of_a_job_is_another_run(desk):
    desk.at(1000.0, desk.job())
    assert desk.at(1100.0, desk.job(start_time=1080.0))["1"].value == 40.0


def test_a_job_that_was_told_to_end_is_not_asked_about(desk):
    assert desk.at(1000.0, replace(desk.job(), is_stopping=True)) == {}
    assert desk.at(2000.0, replace(desk.job(), request=None)) == {}
    assert desk.predictor.asked == []


def test_an_outage_changes_nothing_and_is_not_asked_again_at_once(desk):
    desk.predictor.error = PredictionUnavailableError("connection refused")
    assert desk.at(1000.0, desk.job()) == {}
    assert desk.asking.error is desk.predictor.error
    desk.predictor.error = None
    assert desk.at(1004.0, desk.job()) == {}
    assert set(desk.at(1005.0, desk.job())) == {"1"}


def test_a_refused_question_is_no_outage_and_not_repeated(desk, caplog):
    caplog.set_level(logging.INFO, logger="colocast.scheduler")
    desk.predictor.error = PredictionRefusedError("running[0].user: found ''", 400)
    assert desk.at(1000.0, desk.job()) == {}
    assert desk.asking.error is None
    assert desk.at(1010.0, desk.job()) == {}
    assert [json.loads(record.getMessage())["event"] for record in caplog.records] == ["refused"]


def test_an_answer_that_no_model_gave_replaces_nothing(desk):
    desk.predictor.version = "none"
    assert desk.at(1000.0, desk.job()) == {}


def test_nothing_is_asked_after_an_outage_or_without_time(desk):
    desk.now, asking = 1000.0, Asking(1001.0)
    asking.error = PredictionUnavailableError("connection refused")
    assert desk.answers.repredicted((desk.job(),), 1000.0, asking) == {}
    assert desk.at(1000.0, desk.job(), left_s=0.0) == {}
    assert desk.predictor.asked == []
