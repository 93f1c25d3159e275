import numpy as np
import pytest

from data.domain import FinishedJob, Outcome, Segment
from features.usual_speed import UsualSpeed, at_usual_speed


def job(seconds, *beside, key="ncf", model="A100", outcome=Outcome.OK):
    parts = (Segment(50.0, 50.0 + seconds, "g0", model, beside),)
    facts = ("1", 1, "ada", "q", key, 1, 0.0, 50.0, 50.0 + seconds, outcome, parts)
    return FinishedJob(*facts)


def test_noise_changes_nothing():
    rng = np.random.default_rng(0)
    jobs = [job(100.0 * rng.lognormal(0, 0.03)) for _ in range(200)]
    assert at_usual_speed(jobs) == jobs


@pytest.mark.parametrize("factor", [1.15, 0.8])
def test_after_a_few_runs_times_are_those_of_before(factor):
    slow = [job(100.0 * factor)] * 9
    found = at_usual_speed([*[job(100.0)] * 12, *slow, job(150.0 * factor, "bert")])
    assert found[-1].runtime_s == pytest.approx(150.0)
    assert found[-1].segments[0].finish_time == pytest.approx(200.0)
    assert found[-1].start_time == 50.0


def test_another_gpu_model_is_not_touched():
    speed = UsualSpeed()
    for seconds in [100.0] * 12 + [200.0] * 9:
        speed.normal(job(seconds))
    assert speed.factor("A100") == pytest.approx(2.0)
    other = job(70.0, model="V100")
    assert speed.normal(other) is other


def test_a_key_first_seen_at_another_speed_is_known_at_the_usual_one():
    speed = UsualSpeed()
    for seconds in [100.0] * 12 + [200.0] * 9:
        speed.normal(job(seconds))
    for _ in range(12):
        seen = speed.normal(job(30.0, key="bert"))
    assert seen.runtime_s == pytest.approx(15.0)


def test_failures_shared_runs_and_jobs_without_a_card_say_nothing_of_speed():
    speed = UsualSpeed()
    for seconds in [100.0] * 12:
        speed.normal(job(seconds))
    for _ in range(9):
        speed.normal(job(300.0, "bert"))
        speed.normal(job(1.0, outcome=Outcome.FAILED))
    assert speed.factor("A100") == 1.0
    bare = FinishedJob("1", 1, "ada", "q", "ncf", 1, 0.0, 0.0, 5.0, Outcome.OK)
    assert speed.normal(bare) is bare


def test_keys_that_are_other_work_each_time_say_nothing_of_speed():
    rng = np.random.default_rng(0)
    speed = UsualSpeed()
    for seconds in 100.0 * rng.lognormal(0, 1, 200):
        speed.normal(job(seconds))
    assert speed.factor("A100") == 1.0
