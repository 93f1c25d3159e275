from math import log

import pytest

from data.domain import FinishedJob, Outcome, Segment
from serving.live.outcomes import NEWEST, Outcomes


def finished(job_id="1", runtime_s=100.0, outcome=Outcome.OK, segments=(), **predicted):
    times = (0.0, 0.0, runtime_s)
    return FinishedJob(job_id, 1, "u", "q", "bert", 1, *times, outcome, segments, **predicted)


@pytest.fixture
def outcomes():
    return Outcomes(lambda job_key, gpu_model: 50.0 if gpu_model == "A100" else None)


def test_runtime_is_held_against_what_was_predicted(outcomes):
    outcomes.observe([finished(predicted_runtime_s=200.0), finished(predicted_runtime_s=100.0)])
    assert outcomes.errors()["runtime"].count == 2
    assert outcomes.errors()["runtime"].median == pytest.approx(log(2) / 2)


@pytest.mark.parametrize(
    ("gpu_model", "neighbours", "known"),
    [("A100", ("gan",), True), ("T4", ("gan",), False), ("A100", (), False)],
)
def test_slowdown_is_known_beside_one_neighbour_of_a_job_that_ran_alone_before(
    outcomes, gpu_model, neighbours, known
):
    segments = (Segment(0.0, 100.0, "g0", gpu_model, neighbours),)
    outcomes.observe([finished(segments=segments, predicted_slowdown=1.0)])
    assert ("slowdown" in outcomes.errors()) == known
    if known:
        assert outcomes.errors()["slowdown"].median == pytest.approx(log(2))


def test_jobs_that_failed_or_were_not_predicted_teach_nothing(outcomes):
    outcomes.observe([finished(outcome=Outcome.FAILED, predicted_runtime_s=9.0), finished()])
    assert outcomes.errors() == {}


def test_only_the_newest_outcomes_count(outcomes):
    outcomes.observe(finished(predicted_runtime_s=100.0 * 1000) for _ in range(50))
    outcomes.observe(finished(predicted_runtime_s=100.0) for _ in range(NEWEST))
    assert outcomes.errors()["runtime"].count == NEWEST
    assert outcomes.errors()["runtime"].median == 0.0
