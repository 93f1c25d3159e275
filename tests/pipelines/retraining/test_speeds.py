import numpy as np
import pytest

from data.domain import FinishedJob, Outcome, Segment
from pipelines.retraining.speeds import relative_times


def job(seconds, *neighbours, key="ncf", model="A100", outcome=Outcome.OK):
    segment = Segment(0.0, seconds, "g0", model, neighbours)
    return FinishedJob("1", 1, "ada", "q", key, 1, 0.0, 0.0, seconds, outcome, (segment,))


def test_a_driver_that_slows_everything_shows_at_the_next_run():
    times = relative_times([*[job(100.0)] * 5, job(115.0)])
    assert times[-1] == pytest.approx(np.log(1.15))


def test_each_gpu_model_and_key_has_its_own_usual_time():
    runs = [job(100.0)] * 3 + [job(10.0, model="V100")] * 3 + [job(5.0, key="bert")] * 3
    times = relative_times([*runs, job(10.0, model="V100"), job(5.0, key="bert")])
    assert times[-2:].tolist() == [0.0, 0.0]
    assert np.isnan(times[:-2]).all()


def test_runs_with_neighbours_and_failures_say_nothing_and_count_for_nothing():
    shared, failed = job(150.0, "bert"), job(1.0, outcome=Outcome.FAILED)
    times = relative_times([job(100.0), shared, failed, job(100.0), job(100.0), shared, job(100.0)])
    assert np.isnan(times[:-1]).all()
    assert times[-1] == 0.0
