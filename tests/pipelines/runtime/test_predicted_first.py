import numpy as np
import pytest

from pipelines.runtime.predicted_first import PredictedFirst
from tests.pipelines.runtime.replayed import order_of_starts, replay, trace


def first(told_s, like=None, batch=None):
    """The policy for jobs that are all unlike each other, where nothing else is said."""
    like = np.arange(len(told_s)) if like is None else like
    batch = like if batch is None else batch
    digests = (np.array(digest, np.uint64) for digest in (like, batch))
    return PredictedFirst(np.array(told_s, np.float64), *digests)


def test_shortest_predicted_job_starts_first():
    assert order_of_starts(trace([5, 30, 10]), first([5, 30, 10])) == [0, 2, 1]


def test_what_finished_jobs_of_a_batch_took_moves_the_rest_of_it():
    """The first batch is told to be short; once one of it has run, the other goes first."""
    assert order_of_starts(trace([900, 900, 50]), first([1, 1, 50], [7, 7, 8])) == [0, 2, 1]


def test_what_finished_jobs_took_moves_the_next_batch_of_their_user():
    policy = first([1, 1, 50], like=[7, 7, 8], batch=[1, 2, 3])
    assert order_of_starts(trace([90_000, 90_000, 50]), policy) == [0, 2, 1]


def test_what_is_like_a_job_that_outlasts_its_prediction_waits():
    """Of two cards the first is held for long by a job told to take a second."""
    policy = first([1, 30, 1, 90], like=[7, 8, 7, 9])
    assert order_of_starts(trace([5_000, 400, 5_000, 90]), policy, cards=2) == [0, 1, 3, 2]


def test_one_job_of_a_batch_nobody_knows_goes_before_a_somewhat_shorter_single_job():
    told = [1, *[100] * 9, 60]
    started = order_of_starts(trace([1, *[100] * 9, 60]), first(told, [0, *[7] * 9, 8]))
    assert started[:3] == [0, 1, 10]


def test_a_gang_that_does_not_fit_is_passed():
    policy = first([1, 2, 3])
    assert order_of_starts(trace([9, 9, 9], gpus=[1, 2, 1]), policy, cards=2) == [0, 2, 1]


@pytest.mark.parametrize("seed", range(5))
def test_a_job_that_has_not_ended_moves_no_start(seed):
    """Whatever the truth about it is: of a user, a request and a batch with jobs that start."""
    random = np.random.default_rng(seed)
    runtime_s, told_s = random.lognormal(4, 2, (2, 120))
    batch = random.integers(0, 30, 120)
    gpus = random.integers(1, 4, 120).tolist()
    start, finish = replay(trace(runtime_s, gpus), first(told_s, batch % 9, batch), cards=4)
    moment = np.median(start)
    others = np.where(start < moment, 3.0, random.lognormal(0, 3, 120)) * runtime_s
    others = np.where(finish < moment, runtime_s, others)
    again, _ = replay(trace(others, gpus), first(told_s, batch % 9, batch), cards=4)
    before = start < moment
    assert np.array_equal(start[before], again[before])
    assert (again[~before] >= moment).all()
    assert not np.array_equal(start, again)
