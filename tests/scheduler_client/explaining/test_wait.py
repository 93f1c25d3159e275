from math import inf

import pytest

from data.domain import Estimate, Resident, Source
from scheduler_client.explaining.wait import wait_estimate
from scheduler_client.policy.decisions import Reason, Waiting
from scheduler_client.policy.predictions import JobForecast
from scheduler_client.policy.view import ClusterView, RunningJob


def runtime(lower: float, value: float, upper: float) -> Estimate:
    return Estimate(value, lower, upper, "m/1", Source.MODEL)


@pytest.fixture
def view_of(a_card):
    def make(*pending, runtimes=(), now=0.0) -> ClusterView:
        cards, running = [], []
        for n, known in enumerate(runtimes):
            cards.append(a_card(f"gpu{n}").with_resident(Resident(f"r{n}", "gan"), 100))
            running.append(RunningJob(f"r{n}", "bob", "q", "gan", (f"gpu{n}",), 0.0, runtime=known))
        return ClusterView(now, tuple(cards), pending, tuple(running))

    return make


def waits(*pending, reason=Reason.CARD_FULL):
    return tuple(Waiting(one.job.job_id, reason) for one in pending)


def test_the_next_job_starts_when_the_first_card_comes_free(view_of, a_pending):
    job = a_pending("7")
    view = view_of(job, runtimes=(runtime(50, 100, 300), runtime(60, 80, 90)), now=40.0)
    found = wait_estimate(waits(job), "7", view, {})
    assert (found.lower_s, found.value_s, found.upper_s) == (10.0, 40.0, 50.0)
    assert found.jobs_before == 0


def test_jobs_before_it_take_cards_for_as_long_as_is_predicted(view_of, a_pending):
    first, second = a_pending("1"), a_pending("2")
    view = view_of(first, second, runtimes=(runtime(10, 10, 10),))
    known = {"1": JobForecast(runtime(5, 30, 60))}
    found = wait_estimate(waits(first, second), "2", view, known)
    assert (found.lower_s, found.value_s, found.upper_s) == (15.0, 40.0, 70.0)
    assert found.jobs_before == 1


def test_a_gang_waits_for_all_its_cards(view_of, a_pending):
    gang = a_pending("7", gpus=2)
    view = view_of(gang, runtimes=(runtime(10, 10, 10), runtime(99, 99, 99)))
    assert wait_estimate(waits(gang), "7", view, {}).value_s == 99.0


def test_an_unknown_runtime_leaves_the_end_open(view_of, a_pending):
    job = a_pending("7")
    found = wait_estimate(waits(job), "7", view_of(job, runtimes=(None,)), {})
    assert found.upper_s == inf
    assert found.lower_s <= found.value_s < inf


def test_a_limit_bounds_an_unknown_runtime(view_of, a_pending):
    first, second = a_pending("1", limit_s=20.0), a_pending("2")
    view = view_of(first, second, runtimes=(runtime(10, 10, 10),))
    assert wait_estimate(waits(first, second), "2", view, {}).upper_s == 30.0


@pytest.mark.parametrize("reason", [Reason.IMPOSSIBLE, Reason.HELD, Reason.UNKNOWN_QUEUE])
def test_a_hopeless_job_has_no_estimate(view_of, a_pending, reason):
    job = a_pending("7")
    view = view_of(job, runtimes=(runtime(10, 10, 10),))
    assert wait_estimate(waits(job, reason=reason), "7", view, {}) is None


def test_a_gang_larger_than_the_cluster_has_no_estimate(view_of, a_pending):
    gang = a_pending("7", gpus=3)
    assert wait_estimate(waits(gang), "7", view_of(gang, runtimes=(runtime(1, 1, 1),)), {}) is None


def test_hopeless_jobs_before_it_hold_nobody_up(view_of, a_pending):
    first, second = a_pending("1", gpus=1), a_pending("2")
    view = view_of(first, second, runtimes=(runtime(10, 10, 10),))
    waiting = (Waiting("1", Reason.HELD), Waiting("2", Reason.CARD_FULL))
    found = wait_estimate(waiting, "2", view, {})
    assert (found.value_s, found.jobs_before) == (10.0, 0)
