"""Nominal quota that a gang of the same queue waits for: who holds it until the gang can."""

from dataclasses import replace

import pytest

from scheduler_client.policy.decide import PolicyRules, decide
from scheduler_client.policy.decisions import Ground
from scheduler_client.policy.turns import Turns
from scheduler_client.policy.view import PastEviction, Queue, Reservation, Whom
from tests.scheduler_client.policy.test_preempting import NOW, Site

RULES = PolicyRules()
SINCE = NOW - 1000
LAB = Queue("lab", 3, "all", reclaims=Whom.ANY, preempts=Whom.LOWER_PRIORITY)
OTHERS = Queue("others", 2, "all")
KEPT = (Reservation("gang", SINCE),)


@pytest.fixture
def site(a_card):
    """Five cards: the lab holds one of its three since before the gang waits, all others lent."""
    site = Site([a_card(f"gpu{n}") for n in range(5)])
    site.run("old", "gpu0", queue="lab", mem_mib=8000)
    site.run("lent", "gpu1", "gpu2", queue="others", mem_mib=8000)
    site.run("theirs", "gpu3", "gpu4", queue="others", mem_mib=8000)
    return site


@pytest.fixture
def gang(a_pending):
    return a_pending("gang", queue="lab", gpus=3, gpu_mem_mib=5000, submit_time=0.0)


@pytest.fixture
def small(a_pending):
    return a_pending("small", queue="lab", gpu_mem_mib=5000, submit_time=NOW)


def refuses(small, site, gang, lab=LAB, rules=RULES, kept=KEPT, **fields) -> bool:
    view = site.view(gang, small, queues=(lab, OTHERS), reservations=kept, **fields)
    return Turns(view, {}, rules).kept_quota.refuses(small, lab)


def evictions(site, *pending, lab=LAB):
    view = site.view(*pending, queues=(lab, OTHERS), reservations=KEPT)
    return decide(view, {}, RULES).evictions


def passed(site, start_time: float = SINCE + 1) -> Site:
    """Let the lab's job be one that has started while the gang waited."""
    site.running[0] = replace(site.running[0], start_time=start_time)
    return site


def test_a_small_job_holds_what_a_gang_of_its_queue_cannot_have_yet(site, gang, small):
    assert not refuses(small, site, gang)
    (eviction,) = evictions(site, gang, small)
    assert (eviction.job_id, eviction.ground) == ("small", Ground.RECLAIM)


@pytest.mark.parametrize(
    ("lab", "rules", "times"),
    [
        (replace(LAB, preempts=Whom.NEVER), RULES, 0),
        (LAB, replace(RULES, eviction=None), 0),
        (LAB, RULES, RULES.eviction.most),
    ],
    ids=["the queue forbids it", "nobody is evicted", "evicted too often"],
)
def test_who_could_not_give_way_to_the_gang_waits(site, gang, small, lab, rules, times):
    past = tuple(PastEviction("small", f"for-{n}", 0.0) for n in range(times))
    assert refuses(small, site, gang, lab, rules, evictions=past)


def test_who_would_keep_the_gang_from_taking_its_quota_back_waits(site, gang, small):
    site.running[0] = replace(site.running[0], queue="others")
    assert refuses(small, site, gang)


def test_who_would_borrow_waits(site, gang, small):
    assert refuses(small, site, gang, lab=replace(LAB, nominal_quota_gpus=1))


def test_the_gang_has_those_evicted_who_passed_it_with_what_others_borrowed(site, gang):
    (eviction,) = evictions(passed(site), gang)
    assert (eviction.job_id, eviction.ground) == ("gang", Ground.PASSED)
    assert eviction.victims in (("lent", "old"), ("old", "theirs"))


def test_it_evicts_nobody_who_started_before_it_waited(site, gang):
    assert evictions(passed(site, SINCE), gang) == ()


def test_it_evicts_none_of_its_queue_where_that_is_forbidden(site, gang):
    assert evictions(passed(site), gang, lab=replace(LAB, preempts=Whom.NEVER)) == ()


def test_it_evicts_nobody_while_that_would_not_be_enough(site, gang):
    site.running[1] = replace(site.running[1], queue="lab")
    assert evictions(passed(site), gang) == ()


def test_quota_that_comes_free_for_a_gang_is_not_taken_by_its_own_queue(site, gang, small):
    kept = (Reservation("gang", SINCE, ("gpu0", "gpu1", "gpu2"), ("old", "lent")),)
    assert refuses(small, passed(site), gang, kept=kept)
    assert not refuses(small, passed(site), gang, replace(LAB, nominal_quota_gpus=4), kept=kept)


def test_who_had_its_reservation_first_is_not_in_the_way_of_one_that_came_later(site, gang, small):
    view = site.view(gang, small, queues=(LAB, OTHERS), reservations=KEPT)
    later = replace(view, reservations=(*KEPT, Reservation("small", NOW)))
    for_small = replace(LAB, nominal_quota_gpus=2)  # the gang can only borrow
    assert not Turns(later, {}, RULES).kept_quota.refuses(gang, for_small)
