from dataclasses import replace

import pytest

from data.domain import Estimate, Resident, Source
from scheduler_client.policy.decide import PolicyRules, decide
from scheduler_client.policy.decisions import Ground, Level, Reason
from scheduler_client.policy.eviction_cost import (
    EvictionHistory,
    EvictionRules,
    eviction_costs,
)
from scheduler_client.policy.predictions import CardClass, Colocation, JobForecast
from scheduler_client.policy.view import (
    ClusterView,
    PastEviction,
    Queue,
    Reservation,
    RunningJob,
    Whom,
)

NOW = 10_000.0
RULES = PolicyRules()
LENDER = Queue("lender", 2, "all", reclaims=Whom.ANY)
BORROWER = Queue("borrower", 2, "all")


class Site:
    """Cards of 8,192 MiB; `run` puts a job on some of them."""

    def __init__(self, cards) -> None:
        self.cards = {card.card_id: card for card in cards}
        self.running: list[RunningJob] = []

    def run(self, job_id: str, *card_ids: str, mem_mib: int = 4000, **fields) -> None:
        values = {"user": "bob", "queue": "borrower", "start_time": NOW - 3600, **fields}
        job = RunningJob(
            job_id=job_id,
            job_key=job_id,
            card_ids=card_ids,
            mem_mib=(mem_mib,) * len(card_ids),
            **values,
        )
        self.running.append(job)
        for card_id in card_ids:
            resident = Resident(job_id, job_id)
            self.cards[card_id] = self.cards[card_id].with_resident(resident, mem_mib)

    def view(self, *pending, queues=(LENDER, BORROWER), **fields) -> ClusterView:
        cards, running = tuple(self.cards.values()), tuple(self.running)
        return ClusterView(NOW, cards, pending, running, queues, **fields)


@pytest.fixture
def site(a_card):
    return Site([a_card(f"gpu{n}") for n in range(4)])


@pytest.fixture
def full(site):
    """The borrower holds all four cards; `old` has lost most if it is evicted."""
    for n, (job_id, hours) in enumerate([("old", 9), ("a", 2), ("b", 1), ("c", 3)]):
        site.run(job_id, f"gpu{n}", start_time=NOW - 3600 * hours)
    return site


def mine(a_pending, job_id: str = "new", **fields):
    values = {"queue": "lender", "user": "ada", "submit_time": NOW, "gpu_mem_mib": 5000, **fields}
    return a_pending(job_id, **values)


def test_nominal_quota_is_taken_back_from_the_cheapest(full, a_pending):
    (eviction,) = decide(full.view(mine(a_pending)), {}, RULES).evictions
    assert (eviction.victims, eviction.card_ids) == (("b",), ("gpu2",))
    assert eviction.ground is Ground.RECLAIM
    assert eviction.cost_gpu_s == pytest.approx(3600.0)


def test_the_freed_cards_are_kept_for_the_preemptor(full, a_pending):
    view = full.view(mine(a_pending))
    decision = decide(view, {}, RULES)
    (reservation,) = decision.reservations
    assert (reservation.job_id, reservation.card_ids) == ("new", ("gpu2",))
    del full.running[2]
    full.cards["gpu2"] = replace(full.cards["gpu2"], residents=(), free_mem_mib=8192)
    rival = a_pending("rival", queue="borrower", user="bob", gpu_mem_mib=10)
    later = full.view(rival, mine(a_pending), reservations=decision.reservations)
    after = decide(later, {}, RULES)
    assert [(a.job_id, a.card_ids) for a in after.admissions] == [("new", ("gpu2",))]
    assert "new" not in {kept.job_id for kept in after.reservations}


def test_while_victims_end_nobody_else_is_evicted_for_the_same_job(full, a_pending):
    decision = decide(full.view(mine(a_pending)), {}, RULES)
    full.running[2] = replace(full.running[2], is_stopping=True)
    later = full.view(mine(a_pending), reservations=decision.reservations)
    after = decide(later, {}, RULES)
    assert after.evictions == ()
    assert after.reservations == decision.reservations
    assert after.waiting[0].reason is Reason.FREEING


def test_two_preemptors_of_one_cycle_have_different_victims(full, a_pending):
    view = full.view(mine(a_pending, "1"), mine(a_pending, "2"))
    first, second = decide(view, {}, RULES).evictions
    assert {first.victims, second.victims} == {("b",), ("a",)}


def test_no_more_than_the_nominal_quota_is_taken_back(full, a_pending):
    view = full.view(*(mine(a_pending, str(n)) for n in range(4)))
    assert len(decide(view, {}, RULES).evictions) == 2


@pytest.mark.parametrize("queues", [(replace(LENDER, reclaims=Whom.NEVER), BORROWER)])
def test_a_queue_that_may_not_reclaim_waits(full, a_pending, queues):
    assert decide(full.view(mine(a_pending), queues=queues), {}, RULES).evictions == ()


def test_without_eviction_rules_nobody_is_evicted(full, a_pending):
    rules = replace(RULES, eviction=None)
    assert decide(full.view(mine(a_pending)), {}, rules).evictions == ()


def test_a_queue_within_its_own_quota_gives_nothing_back(full, a_pending):
    queues = (LENDER, replace(BORROWER, nominal_quota_gpus=4))
    assert decide(full.view(mine(a_pending), queues=queues), {}, RULES).evictions == ()


def test_a_gang_evicts_as_many_as_it_needs(full, a_pending):
    (eviction,) = decide(full.view(mine(a_pending, gpus=2)), {}, RULES).evictions
    assert eviction.victims == ("a", "b")
    assert sorted(eviction.card_ids) == ["gpu1", "gpu2"]


def test_a_gang_that_eviction_would_not_let_start_evicts_nobody(full, a_pending):
    queues = (replace(LENDER, nominal_quota_gpus=9), BORROWER)
    assert decide(full.view(mine(a_pending, gpus=5), queues=queues), {}, RULES).evictions == ()


def test_memory_that_eviction_would_not_free_evicts_nobody(site, a_pending):
    for n in range(4):
        site.run(f"theirs{n}", f"gpu{n}", queue="lender", user="ada", mem_mib=4000)
        site.run(f"lent{n}", f"gpu{n}", mem_mib=1000)
    queues = (replace(LENDER, nominal_quota_gpus=4), replace(BORROWER, nominal_quota_gpus=0))
    view = site.view(mine(a_pending, gpu_mem_mib=6000), queues=queues)
    assert decide(view, {}, RULES).evictions == ()


def test_a_gang_as_victim_frees_all_its_cards_at_once(site, a_pending):
    site.run("wide", "gpu0", "gpu1", start_time=NOW - 3600)
    site.run("a", "gpu2", start_time=NOW - 5000)
    site.run("b", "gpu3", start_time=NOW - 5000)
    (eviction,) = decide(site.view(mine(a_pending, gpus=2)), {}, RULES).evictions
    assert eviction.victims == ("wide",)


def test_a_job_that_shares_leaves_its_neighbour_alone(site, a_pending):
    for n in range(4):
        site.run(f"mine{n}", f"gpu{n}", queue="lender", user="ada", mem_mib=1000)
        site.run(f"lent{n}", f"gpu{n}", mem_mib=1000, start_time=NOW - 1000 * (n + 1))
    light = Estimate(1.1, 1.0, 1.2, "m/1", Source.MODEL)
    beside = {CardClass("A100", (f"mine{n}",)): Colocation(light, (light,)) for n in range(4)}
    queues = (replace(LENDER, nominal_quota_gpus=4), replace(BORROWER, nominal_quota_gpus=0))
    predictions = {"new": JobForecast(None, {}, beside, Level.MODEL)}
    (eviction,) = decide(site.view(mine(a_pending), queues=queues), predictions, RULES).evictions
    assert eviction.victims == ("lent0",)


def test_higher_priority_evicts_only_the_same_users_jobs(full, a_pending):
    queues = (replace(BORROWER, nominal_quota_gpus=4, preempts=Whom.LOWER_PRIORITY),)
    full.running[1] = replace(full.running[1], user="eve")
    job = mine(a_pending, queue="borrower", user="eve", priority=5)
    (eviction,) = decide(full.view(job, queues=queues), {}, RULES).evictions
    assert (eviction.victims, eviction.ground) == (("a",), Ground.PRIORITY)
    equal = mine(a_pending, queue="borrower", user="eve", priority=0)
    assert decide(full.view(equal, queues=queues), {}, RULES).evictions == ()


def test_a_job_that_has_just_started_is_left_alone_by_higher_priority(full, a_pending):
    queues = (replace(BORROWER, nominal_quota_gpus=4, preempts=Whom.LOWER_PRIORITY),)
    full.running = [replace(job, start_time=NOW - 10) for job in full.running]
    job = mine(a_pending, queue="borrower", user="bob", priority=5)
    assert decide(full.view(job, queues=queues), {}, RULES).evictions == ()


def test_who_gave_way_does_not_strike_back(full, a_pending):
    past = (PastEviction("new", "b", NOW - 60),)
    (eviction,) = decide(full.view(mine(a_pending), evictions=past), {}, RULES).evictions
    assert eviction.victims == ("a",)
    long_ago = (PastEviction("new", "b", NOW - 7 * 3600),)
    (eviction,) = decide(full.view(mine(a_pending), evictions=long_ago), {}, RULES).evictions
    assert eviction.victims == ("b",)


def test_past_evictions_make_a_victim_dearer_and_then_safe(full, a_pending):
    twice = (PastEviction("b", "x", NOW - 60),) * 4
    (eviction,) = decide(full.view(mine(a_pending), evictions=twice), {}, RULES).evictions
    assert eviction.victims == ("a",)
    worn = tuple(PastEviction(job, "x", NOW - 9e9) for job in ("a", "b", "c") for _ in range(5))
    (eviction,) = decide(full.view(mine(a_pending), evictions=worn), {}, RULES).evictions
    assert eviction.victims == ("old",)


def test_a_job_that_was_evicted_too_often_borrows_only_what_nobody_waits_for(site, a_pending):
    worn = tuple(PastEviction("worn", "x", NOW - 60) for _ in range(5))
    job = a_pending("worn", queue="borrower", user="bob", gpu_mem_mib=10)
    site.run("a", "gpu0")
    site.run("b", "gpu1")
    assert decide(site.view(job, evictions=worn), {}, RULES).admissions
    rivals = (mine(a_pending, "1", gpus=2), job)
    decision = decide(site.view(*rivals, evictions=worn), {}, RULES)
    assert {w.job_id: w.reason for w in decision.waiting}["worn"] is Reason.QUOTA
    no_rivals = (mine(a_pending, "1", gpus=4), job)  # more than its quota: it can only borrow
    assert decide(site.view(*no_rivals, evictions=worn), {}, RULES).admissions


def test_silence_about_checkpoints_does_not_pay(full, a_pending):
    saved = {"a": NOW - 600, "c": NOW - 1200}
    full.running = [replace(job, saved_time=saved.get(job.job_id)) for job in full.running]
    view = full.view()
    costs = eviction_costs(view, EvictionHistory((), NOW, EvictionRules()))
    assert costs == {"a": 600.0, "c": 1200.0, "old": 900.0, "b": 900.0}


def test_cost_grows_with_evictions_and_fades(full):
    rules = EvictionRules(growth=0.5, half_life_s=3600.0)
    past = (PastEviction("b", "x", NOW), PastEviction("b", "x", NOW - 3600))
    history = EvictionHistory(past, NOW, rules)
    assert eviction_costs(full.view(), history)["b"] == pytest.approx(3600 * (1 + 0.5 * 1.5))


def test_two_preemptors_are_never_sent_to_one_card(full, a_pending):
    light = Estimate(1.1, 1.0, 1.2, "m/1", Source.MODEL)
    beside = {CardClass("A100", ("bert",)): Colocation(light, (light,))}
    jobs = [mine(a_pending, str(n), gpu_mem_mib=100) for n in range(2)]
    predictions = {str(n): JobForecast(None, {}, beside, Level.MODEL) for n in range(2)}
    evictions = decide(full.view(*jobs), predictions, RULES).evictions
    cards = [card_id for eviction in evictions for card_id in eviction.card_ids]
    assert len(cards) == len(set(cards)) == 2


def test_nobody_is_evicted_for_a_job_that_waits_for_a_gangs_quota_alone(site, a_pending):
    """It fits a free card as it is: an eviction of nobody was planned for it, cycle after cycle."""
    long = Estimate(90_000.0, 80_000.0, 99_000.0, "m/1", Source.MODEL)
    site.run("old", "gpu0", runtime=long)
    site.run("other", "gpu1", runtime=long)
    queues = replace(LENDER, nominal_quota_gpus=3), replace(BORROWER, nominal_quota_gpus=1)
    gang, short = mine(a_pending, "gang", gpus=3), mine(a_pending, "short", limit_s=10.0)
    gave_way = tuple(PastEviction("gang", job_id, NOW - 60) for job_id in ("old", "other"))
    view = site.view(gang, short, queues=queues, evictions=gave_way)
    decision = decide(replace(view, reservations=(Reservation("gang", NOW - 60),)), {}, RULES)
    assert {w.job_id: w.reason for w in decision.waiting}["short"] is Reason.RESERVED
    assert decision.evictions == ()
