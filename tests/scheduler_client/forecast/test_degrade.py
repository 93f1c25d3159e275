import json
import logging
from dataclasses import replace

import pytest

from data.domain import Estimate, FinishedJob, Outcome, Placement, Segment, Source
from data.errors import PredictionRefusedError, PredictionUnavailableError
from scheduler_client.config import PredictionSettings
from scheduler_client.forecast.degrade import Forecaster
from scheduler_client.forecast.profiles import ProfileBook
from scheduler_client.policy.decisions import Level
from scheduler_client.policy.predictions import CardClass
from scheduler_client.policy.view import ClusterView, RunningJob

BESIDE_GAN = CardClass("A100", ("gan",))
BESIDE_BERT = CardClass("A100", ("bert",))
DOWN = PredictionUnavailableError("connection refused")


def estimate(value: float, source: Source = Source.MODEL) -> Estimate:
    return Estimate(value, value, value, "m/1", source)


class ScriptedPredictor:
    """Answers, or raises what it is told to; keeps what it was asked."""

    def __init__(self, clock: list[float]) -> None:
        self.error: Exception | None = None
        self.runtime_error: Exception | None = None
        self.asked: list[tuple[str, int]] = []
        self.beside: list[tuple[str, float]] = []
        self.takes_s = 0.0
        self.version = "m/1"
        self._clock = clock

    def placements(self, job, cards, within_s=None):
        self.asked.append((job.job_key, len(cards)))
        self._clock[0] += self.takes_s
        if self.error:
            raise self.error
        return tuple(
            Placement(
                card.card_id,
                replace(estimate(1.0 + 0.2 * len(card.residents)), model_version=self.version),
                tuple(estimate(1.1) for _ in card.residents),
                estimate(500.0),
                fits=True,
                cost=0.0,
            )
            for card in cards
        )

    def runtimes(self, jobs, running=(), within_s=None):
        self.asked.append(("runtimes", len(jobs)))
        self.beside = [(job.job_id, job.elapsed_s) for job in running]
        if self.error or self.runtime_error:
            raise self.runtime_error or self.error
        return tuple(estimate(60.0) for _ in jobs)


@pytest.fixture
def clock():
    return [0.0]


@pytest.fixture
def predictor(clock):
    return ScriptedPredictor(clock)


@pytest.fixture
def profiles():
    return ProfileBook()


@pytest.fixture
def forecaster(predictor, profiles, clock):
    settings = PredictionSettings(1.0, fresh_s=5.0, last_good_s=100.0, budget_s=1.0)
    return Forecaster(predictor, settings, profiles, lambda: clock[0])


@pytest.fixture
def view(a_card, a_pending):
    """One card with ``gan``, one empty; two pending jobs of one kind."""
    cards = (a_card("gpu0", "gan"), a_card("gpu1"))
    return ClusterView(0.0, cards, (a_pending("1"), a_pending("2")))


def events(caplog) -> list[tuple[str, str]]:
    found = [json.loads(record.getMessage()) for record in caplog.records]
    return [(event["event"], event.get("level", event.get("question"))) for event in found]


@pytest.fixture(autouse=True)
def _log(caplog):
    caplog.set_level(logging.INFO, logger="colocast.scheduler")


def profile_of(key: str, util: float) -> FinishedJob:
    segment = Segment(0.0, 10.0, "gpu0", "A100")
    signals = {"gpu_util_mean": util, "gpu_util_std": 0.1, "gpu_mem_peak_mib": 400.0}
    return FinishedJob(
        key, 1, "ada", "q", key, 1, 0.0, 0.0, 10.0, Outcome.OK, (segment,), signals=signals
    )


def test_answers_that_are_never_fresh_count_in_their_own_cycle(predictor, profiles, view):
    settings = PredictionSettings(deadline_s=1.0, fresh_s=0.0, last_good_s=100.0)
    forecaster = Forecaster(predictor, settings, profiles)
    assert forecaster.forecast(view, 2)["1"].level is Level.MODEL
    assert forecaster.forecast(view, 2)["1"].level is Level.MODEL
    assert predictor.asked.count(("bert", 3)) == 2


def test_a_working_predictor_answers_at_level_model(forecaster, predictor, view):
    forecasts = forecaster.forecast(view, 2)
    assert forecasts["1"].level is Level.MODEL
    assert forecasts["1"].colocation(BESIDE_GAN).job_slowdown.value == 1.2
    assert forecasts["1"].memory["A100"].value == 500.0
    assert forecasts["2"].runtime.value == 60.0
    # One question for both jobs: empty, beside gan, and beside one another.
    assert predictor.asked == [("bert", 3), ("runtimes", 2)]


def test_beside_a_job_that_may_start_first_is_predicted_too(forecaster, view):
    assert forecaster.forecast(view, 2)["1"].colocation(BESIDE_BERT) is not None


def test_fresh_answers_are_not_asked_again(forecaster, predictor, view, clock):
    forecaster.forecast(view, 2)
    clock[0] = 5.0
    forecaster.forecast(view, 2)
    assert len(predictor.asked) == 2
    clock[0] = 5.1
    forecaster.forecast(view, 2)
    assert predictor.asked[2:] == [("bert", 3), ("runtimes", 2)]


def test_an_outage_is_bridged_by_the_last_good_answers(forecaster, predictor, view, clock, caplog):
    forecaster.forecast(view, 2)
    clock[0], predictor.error = 10.0, DOWN
    forecast = forecaster.forecast(view, 2)["1"]
    assert forecast.level is forecaster.level is Level.LAST_GOOD
    assert forecast.answer_age_s == 10.0
    assert forecast.colocation(BESIDE_GAN).job_slowdown.value == 1.2
    assert forecast.runtime.value == 60.0
    assert events(caplog) == [("degraded", "last_good")]


def test_answers_that_are_too_old_are_not_used(forecaster, predictor, view, clock):
    forecaster.forecast(view, 2)
    clock[0], predictor.error = 101.0, DOWN
    forecast = forecaster.forecast(view, 2)["1"]
    assert forecast.level is Level.EXCLUSIVE
    assert forecast.answer_age_s is None
    assert forecast.colocation(BESIDE_GAN) is None
    assert forecast.runtime is None


def test_measured_profiles_stand_in_where_nothing_was_ever_answered(
    forecaster, predictor, profiles, view
):
    predictor.error = DOWN
    profiles.observe(profile_of("bert", 0.7))
    profiles.observe(profile_of("gan", 0.6))
    forecast = forecaster.forecast(view, 2)["1"]
    assert forecast.level is Level.HEURISTIC
    found = forecast.colocation(BESIDE_GAN)
    assert found.job_slowdown.value == pytest.approx(1.3)
    assert found.job_slowdown.source is Source.HEURISTIC
    assert found.gpu_util_cost == pytest.approx(1.3 + 0.3)
    assert forecast.memory["A100"].upper == pytest.approx(480.0)


def test_without_anything_jobs_run_exclusively(forecaster, predictor, view, caplog):
    predictor.error = DOWN
    forecast = forecaster.forecast(view, 2)["1"]
    assert forecast.level is Level.EXCLUSIVE
    assert forecast.colocation(CardClass("A100")).job_slowdown.value == 1.0
    assert events(caplog) == [("degraded", "exclusive")]


def test_levels_are_logged_when_they_change_and_only_then(
    forecaster, predictor, view, clock, caplog
):
    predictor.error = DOWN
    for _ in range(3):
        forecaster.forecast(view, 2)
    predictor.error = None
    for _ in range(3):
        clock[0] += 6.0
        forecaster.forecast(view, 2)
    assert events(caplog) == [("degraded", "exclusive"), ("recovered", "model")]


def test_while_nothing_waits_the_lost_endpoint_is_probed(
    forecaster, predictor, view, clock, caplog
):
    predictor.error = DOWN
    forecaster.forecast(view, 2)
    idle = ClusterView(0.0, view.cards)
    forecaster.forecast(idle, 2)
    assert forecaster.level is Level.EXCLUSIVE
    predictor.error = None
    forecaster.forecast(idle, 2)
    assert forecaster.level is Level.MODEL
    asked = len(predictor.asked)
    forecaster.forecast(idle, 2)
    assert len(predictor.asked) == asked


def test_after_one_outage_the_cycle_asks_no_more(forecaster, predictor, a_card, a_pending):
    predictor.error = DOWN
    pending = tuple(a_pending(str(n), job_key=f"key{n}") for n in range(5))
    forecaster.forecast(ClusterView(0.0, (a_card("gpu0", "gan"),), pending), 2)
    assert len(predictor.asked) == 1


def test_a_slow_predictor_costs_a_cycle_its_deadline_and_no_more(
    forecaster, predictor, a_card, a_pending, clock, caplog
):
    predictor.takes_s = 0.4
    pending = tuple(a_pending(str(n), job_key=f"key{n}") for n in range(5))
    view = ClusterView(0.0, (a_card("gpu0", "gan"),), pending)
    forecasts = forecaster.forecast(view, 2)
    assert [f.level for f in forecasts.values()].count(Level.MODEL) == 2
    assert clock[0] <= 1.0
    assert events(caplog) == []
    forecaster.forecast(view, 2)
    forecasts = forecaster.forecast(view, 2)
    assert all(f.level is Level.MODEL for f in forecasts.values())


def test_a_cycle_spends_no_more_than_its_budget_on_asking(
    predictor, profiles, a_card, a_pending, clock
):
    settings = PredictionSettings(deadline_s=1.0, budget_s=0.25)
    forecaster = Forecaster(predictor, settings, profiles, lambda: clock[0])
    predictor.takes_s = 0.1
    pending = tuple(a_pending(str(n), job_key=f"key{n}") for n in range(5))
    view = ClusterView(0.0, (a_card("gpu0", "gan"),), pending)
    forecasts = forecaster.forecast(view, 2)
    assert [f.level for f in forecasts.values()].count(Level.MODEL) == 3
    forecasts = forecaster.forecast(view, 2)
    assert all(f.level is Level.MODEL for f in forecasts.values())
    assert [key for key, _ in predictor.asked].count("key0") == 1


def test_what_is_only_stale_waits_for_a_cycle_with_time(
    forecaster, predictor, a_card, a_pending, clock
):
    pending = tuple(a_pending(str(n), job_key=f"key{n}") for n in range(5))
    view = ClusterView(0.0, (a_card("gpu0", "gan"),), pending)
    forecaster.forecast(view, 2)
    clock[0], predictor.takes_s = 6.0, 0.3
    predictor.asked.clear()
    forecasts = forecaster.forecast(view, 2)
    assert [key for key, _ in predictor.asked] == ["key0", "key1", "runtimes"]
    assert all(f.level is Level.MODEL for f in forecasts.values())


def test_a_refused_question_concerns_only_its_job(forecaster, predictor, view, clock, caplog):
    predictor.error = PredictionRefusedError("job_key: found 'bert'", 400)
    forecast = forecaster.forecast(view, 2)["1"]
    assert forecast.level is Level.EXCLUSIVE
    assert forecaster.level is Level.MODEL
    forecaster.forecast(view, 2)
    assert [key for key, _ in predictor.asked if key == "bert"] == ["bert"]
    clock[0], predictor.error = 6.0, None
    assert forecaster.forecast(view, 2)["1"].level is Level.MODEL
    assert events(caplog)[0] == ("refused", "placements")


def test_an_endpoint_without_a_model_has_nothing_to_say(forecaster, predictor, view, clock, caplog):
    predictor.version = "none"
    forecast = forecaster.forecast(view, 2)["1"]
    assert forecast.level is Level.EXCLUSIVE
    assert forecast.colocation(BESIDE_GAN) is None
    assert forecast.memory["A100"].value == 500.0
    assert forecast.runtime.value == 60.0
    forecaster.forecast(view, 2)
    clock[0], predictor.version = 6.0, "m/1"
    assert forecaster.forecast(view, 2)["1"].level is Level.MODEL
    assert predictor.asked.count(("bert", 3)) == 2
    assert events(caplog) == [("degraded", "exclusive"), ("recovered", "model")]


def test_runtimes_may_fail_alone(forecaster, predictor, view, clock, caplog):
    predictor.runtime_error = DOWN
    forecasts = forecaster.forecast(view, 2)
    assert forecasts["1"].level is Level.MODEL
    assert forecasts["1"].runtime is None
    predictor.runtime_error = None
    assert forecaster.forecast(view, 2)["1"].runtime.value == 60.0
    assert events(caplog) == [("degraded", "last_good"), ("recovered", "model")]


def test_a_refused_runtime_is_no_outage(forecaster, predictor, view, caplog):
    predictor.runtime_error = PredictionRefusedError("too many rows", 413)
    assert forecaster.forecast(view, 2)["1"].runtime is None
    assert events(caplog) == [("refused", "runtime")]


def test_many_runtimes_are_asked_in_parts(forecaster, predictor, a_card, a_pending):
    pending = tuple(a_pending(str(n)) for n in range(2001))
    forecasts = forecaster.forecast(ClusterView(0.0, (a_card(),), pending), 2)
    assert predictor.asked[1:] == [("runtimes", 2000), ("runtimes", 1)]
    assert len(forecasts) == 2001


@pytest.fixture
def at_work(view, a_job):
    """The same view, a minute later, with the job that runs on the shared card."""
    gan = RunningJob("gpu0-0", "ada", "research", "gan", ("gpu0",), 0.0, request=a_job("gpu0-0"))
    return replace(view, now=60.0, running=(gan,))


def test_a_question_about_pending_jobs_tells_of_the_running_ones(forecaster, predictor, at_work):
    forecaster.forecast(at_work, 2)
    assert predictor.beside == [("gpu0-0", 60.0)]


def test_running_jobs_are_predicted_anew_after_those_that_wait(forecaster, predictor, at_work):
    assert forecaster.repredicted(at_work) == {}
    forecaster.forecast(at_work, 2)
    assert forecaster.repredicted(at_work)["gpu0-0"].value == 60.0
    assert predictor.asked == [("bert", 3), ("runtimes", 2), ("runtimes", 1)]


def test_after_an_outage_running_jobs_are_not_asked_about(forecaster, predictor, at_work):
    predictor.runtime_error = DOWN
    forecaster.forecast(at_work, 2)
    assert forecaster.repredicted(at_work) == {}
    assert predictor.asked == [("bert", 3), ("runtimes", 2)]
