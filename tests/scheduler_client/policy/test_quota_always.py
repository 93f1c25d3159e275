"""A queue gets its nominal quota, whoever waits for it, shares with it or is kept cards."""

from dataclasses import replace

import pytest

from scheduler_client.policy.decide import PolicyRules, decide
from scheduler_client.policy.decisions import Ground, Reason
from scheduler_client.policy.view import PastEviction, Queue, Reservation, Whom
from tests.scheduler_client.policy.test_preempting import NOW, Site

RULES = PolicyRules()
GANG = (Reservation("gang", NOW - 1000),)


def reclaiming(**quotas: float) -> tuple[Queue, ...]:
    return tuple(Queue(name, gpus, "all", reclaims=Whom.ANY) for name, gpus in quotas.items())


@pytest.fixture
def site(a_card):
    return Site([a_card(f"gpu{n}") for n in range(4)])


def asks(a_pending, job_id: str, queue: str, gpus: int = 1):
    fields = {"user": queue, "gpus": gpus, "gpu_mem_mib": 5000, "submit_time": NOW - 2000}
    return a_pending(job_id, queue=queue, **fields)


@pytest.mark.parametrize(("owners", "is_kept"), [(1, True), (2, False)])
def test_cards_are_kept_for_a_borrower_while_that_leaves_the_owners_theirs(
    site, a_pending, owners, is_kept
):
    theirs = [asks(a_pending, f"theirs-{n}", "owner") for n in range(owners)]
    gang = asks(a_pending, "gang", "lab", gpus=3)
    site.run("old", "gpu0", "gpu1", queue="lab", mem_mib=8000)
    queues = reclaiming(lab=2, owner=2)
    decision = decide(site.view(gang, *theirs, queues=queues, reservations=GANG), {}, RULES)
    assert (GANG[0] in decision.reservations) is is_kept
    assert len(decision.admissions) == (0 if is_kept else 2)


def test_as_a_last_resort_its_owner_gets_a_card_that_is_kept_for_a_borrower(site, a_pending):
    """The gang will be within its quota once `old` has ended; before that it would borrow."""
    site.run("old", "gpu0", "gpu1", "gpu2", queue="lab", mem_mib=8000)
    gang, mine = asks(a_pending, "gang", "lab", gpus=2), asks(a_pending, "mine", "owner")
    view = site.view(gang, mine, queues=reclaiming(lab=3, owner=1), reservations=GANG)
    first = decide(view, {}, RULES)
    assert (first.admissions, first.evictions) == ((), ())
    (admission,) = decide(replace(view, reservations=first.reservations), {}, RULES).admissions
    assert admission.job_id == "mine"


def test_neighbours_that_hold_more_than_their_own_once_others_left_give_way_too(site, a_pending):
    """Two gangs share all cards: only without both has anybody else the memory."""
    cards = tuple(site.cards)
    site.run("within", *cards, queue="lab")
    site.run("over", *cards, queue="guest")
    view = site.view(asks(a_pending, "mine", "owner"), queues=reclaiming(lab=2, guest=1, owner=1))
    (eviction,) = decide(view, {}, RULES).evictions
    assert (eviction.victims, eviction.ground) == (("over", "within"), Ground.RECLAIM)


def test_two_victims_on_one_card_give_way_where_their_queue_holds_more_as_each_leaves(
    site, a_pending
):
    """The first of the gangs leaves its queue above its quota: its neighbour holds all then."""
    cards = tuple(site.cards)
    site.run("first", *cards, queue="guest")
    site.run("second", *cards, queue="guest")
    view = site.view(asks(a_pending, "mine", "owner"), queues=reclaiming(guest=3, owner=1))
    (eviction,) = decide(view, {}, RULES).evictions
    assert eviction.victims == ("first", "second")


def test_two_that_may_borrow_no_more_do_not_wait_for_each_other(site, a_pending):
    """Gangs larger than their queues' quotas: neither can ever take anything back."""
    gangs = [asks(a_pending, f"{queue}-gang", queue, gpus=3) for queue in ("a", "b")]
    past = tuple(PastEviction(g.job.job_id, f"for-{n}", 0.0) for g in gangs for n in range(5))
    decision = decide(site.view(*gangs, queues=reclaiming(a=2, b=2), evictions=past), {}, RULES)
    assert [admission.job_id for admission in decision.admissions] == ["a-gang"]


def test_nothing_is_cleared_for_who_would_hold_quota_that_is_kept_for_another(site, a_pending):
    """A gang of its queue takes back all of its quota; the other job would have left it too few."""
    for n in range(4):
        site.run(f"lent-{n}", f"gpu{n}", queue="guest", mem_mib=8000)
    gang, small = asks(a_pending, "gang", "lab", gpus=2), asks(a_pending, "small", "lab")
    queues = reclaiming(lab=2, guest=2)
    gave_way = tuple(PastEviction("gang", f"lent-{n}", NOW - 60) for n in range(4))
    view = site.view(gang, small, queues=queues, reservations=GANG, evictions=gave_way)
    decision = decide(view, {}, RULES)
    assert decision.evictions == ()
    assert {w.job_id: w.reason for w in decision.waiting}["small"] is Reason.RESERVED
