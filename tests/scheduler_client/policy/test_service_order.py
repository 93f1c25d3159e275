"""Least attained GPU time first, and what follows from it for evictions and tolerance."""

from dataclasses import replace

import pytest

from data.domain import Estimate, Source
from scheduler_client.policy.decide import PolicyRules, decide
from scheduler_client.policy.decisions import Ground
from scheduler_client.policy.ledger import Ledger
from scheduler_client.policy.predictions import CardClass, Colocation, JobForecast
from scheduler_client.policy.service_levels import LevelRules
from scheduler_client.policy.service_order import ServiceOrder
from scheduler_client.policy.view import ClusterView, PastEviction, Queue, Whom
from tests.scheduler_client.policy.test_preempting import NOW, Site

HOUR_S = 3600.0
LEVELS = LevelRules((2 * HOUR_S, 8 * HOUR_S), least_run_s=HOUR_S)
RULES = PolicyRules(order=LEVELS)
EVICTING = {"preempts": Whom.LOWER_PRIORITY, "borrows": Whom.LOWER_PRIORITY}


def order_of(pending, predictions=None) -> list[str]:
    view, found = ClusterView(NOW, (), tuple(pending)), []
    order, ledger = ServiceOrder(view, predictions or {}, LEVELS), Ledger(view)
    while (one := order.next(ledger)) is not None:
        found.append(one.job.job_id)
    return found


def of_runtime(seconds: float) -> JobForecast:
    return JobForecast(runtime=Estimate(seconds, seconds, seconds, "m/1", Source.MODEL))


def test_who_has_had_less_goes_first_by_levels_then_the_shortest(a_pending):
    had = {"new-long": 0.0, "new-short": 0.0, "level-1": 3 * HOUR_S, "level-2": 9 * HOUR_S}
    pending = [
        replace(a_pending(name, user=name), attained_gpu_s=gpu_s) for name, gpu_s in had.items()
    ]
    runtimes = {"new-long": 9e5, "new-short": 60.0, "level-1": 1.0, "level-2": 1.0}
    predictions = {name: of_runtime(seconds) for name, seconds in runtimes.items()}
    assert order_of(pending[::-1], predictions) == ["new-short", "new-long", "level-1", "level-2"]


def test_priority_shares_out_a_users_turns_and_gets_it_no_others(a_pending):
    pending = [
        a_pending("ada-1", user="ada", submit_time=1.0),
        a_pending("bob", user="bob", submit_time=2.0),
        a_pending("ada-2", user="ada", submit_time=3.0, priority=9),
    ]
    assert order_of(pending) == ["ada-2", "bob", "ada-1"]


@pytest.fixture
def full(a_card):
    """Queue ``heavy`` has borrowed a card; `old` has run for nine hours, `young` for one."""
    site = Site([a_card("gpu0"), a_card("gpu1")])
    site.run("old", "gpu0", queue="heavy", start_time=NOW - 9 * HOUR_S)
    site.run("young", "gpu1", queue="heavy", start_time=NOW - HOUR_S)
    return site


def queues(**heavy) -> tuple[Queue, ...]:
    lender = Queue("idle", 1, "all")
    return Queue("heavy", 1, "all", **heavy), Queue("other", 0, "all", **EVICTING), lender


def newcomer(a_pending, queue="other", **fields):
    return a_pending("new", queue=queue, user="ada", submit_time=NOW, gpu_mem_mib=5000, **fields)


def test_who_has_had_less_takes_the_place_of_a_borrower_that_had_more(full, a_pending):
    view = full.view(newcomer(a_pending), queues=queues())
    (eviction,) = decide(view, {}, RULES).evictions
    assert (eviction.victims, eviction.ground) == (("old",), Ground.SERVICE)
    assert decide(view, {}, PolicyRules()).evictions == ()


def test_a_queue_that_allows_it_evicts_its_own(full, a_pending):
    mine = newcomer(a_pending, "heavy")
    allows = queues(preempts=Whom.LOWER_PRIORITY)
    (eviction,) = decide(full.view(mine, queues=allows), {}, RULES).evictions
    assert eviction.victims == ("old",)
    assert decide(full.view(mine, queues=queues()), {}, RULES).evictions == ()


def test_nobody_gives_way_who_started_a_short_while_ago(full, a_pending):
    view = full.view(newcomer(a_pending), queues=queues())
    patient = replace(RULES, order=replace(LEVELS, least_run_s=10 * HOUR_S))
    assert decide(view, {}, patient).evictions == ()


def test_who_had_as_much_before_it_was_evicted_waits(full, a_pending):
    waits = replace(newcomer(a_pending), attained_gpu_s=9 * HOUR_S)
    assert decide(full.view(waits, queues=queues()), {}, RULES).evictions == ()


@pytest.mark.parametrize(("times", "served"), [(4, {"new", "theirs"}), (5, {"theirs"})])
def test_who_may_borrow_no_more_has_nobody_evicted_in_order_to(full, a_pending, times, served):
    heavy, other, _ = queues()
    theirs = a_pending("theirs", queue="idle", user="eve", submit_time=NOW, gpu_mem_mib=5000)
    idle = Queue("idle", 2, "all", reclaims=Whom.ANY)
    owners = (replace(heavy, nominal_quota_gpus=0), other, idle)
    past = tuple(PastEviction("new", f"for-{n}", 0.0) for n in range(times))
    view = full.view(newcomer(a_pending), theirs, queues=owners, evictions=past)
    assert {eviction.job_id for eviction in decide(view, {}, RULES).evictions} == served


def test_jobs_of_a_queue_that_asks_for_its_own_alone_never_give_way(full, a_pending):
    within = (Queue("heavy", 2, "all"), Queue("other", 0, "all", **EVICTING))
    assert decide(full.view(newcomer(a_pending), queues=within), {}, RULES).evictions == ()


def test_of_like_jobs_the_one_that_waited_longer_takes_back_what_started_meanwhile(
    a_card, a_pending
):
    """The other had its turn first, and found nobody who had run long enough."""
    site = Site([a_card("gpu0"), a_card("gpu1")])
    for number in range(2):
        site.run(f"run{number}", f"gpu{number}", queue="heavy", start_time=NOW - 60)
    owner = Queue("other", 1, "all", reclaims=Whom.ANY)
    asked = {"queue": "other", "user": "ada", "gpu_mem_mib": 8192}
    late = a_pending("late", submit_time=NOW - 30, **asked)
    early = a_pending("early", submit_time=NOW - 90, **asked)
    view = site.view(early, late, queues=(Queue("heavy", 1, "all"), owner))
    alike = of_runtime(10.0)
    predictions = {"late": alike, "early": replace(alike, runtime=of_runtime(99.0).runtime)}
    (eviction,) = decide(view, predictions, RULES).evictions
    assert (eviction.job_id, eviction.ground) == ("early", Ground.RECLAIM)


def beside(slowdown: float) -> dict[str, JobForecast]:
    both = Estimate(slowdown, slowdown, slowdown, "m/1", Source.MODEL)
    card = CardClass("A100", ("old",))
    return {"new": JobForecast(colocations={card: Colocation(both, (both,))})}


@pytest.mark.parametrize(
    ("heavy_quota", "slowdown", "had_gpu_s", "starts"),
    [
        (0, 1.6, 0.0, True),  # a new job is soon done
        (0, 1.6, 3 * HOUR_S, False),
        (0, 1.4, 3 * HOUR_S, True),
        (1, 1.4, 0.0, False),  # the neighbour's queue asks for its own alone
        (1, 1.04, 0.0, True),
    ],
)
def test_what_is_tolerated_goes_by_the_level_and_the_neighbours_queue(
    a_card, a_pending, heavy_quota, slowdown, had_gpu_s, starts
):
    site = Site([a_card("gpu0", gpu_model="A100")])
    site.run("old", "gpu0", mem_mib=1000, queue="heavy", start_time=NOW - 60)
    pending = replace(a_pending("new", queue="other", gpu_mem_mib=1000), attained_gpu_s=had_gpu_s)
    owners = (Queue("heavy", heavy_quota, "all"), Queue("other", 0.4, "all"))
    view = site.view(pending, queues=owners)
    admissions = decide(view, beside(slowdown), RULES).admissions
    assert bool(admissions) is starts


@pytest.mark.parametrize(("ahead", "starts"), [({}, False), ({"heavy": 60.0}, True)])
def test_what_a_queue_borrowed_before_is_taken_from_what_it_is_owed(
    a_card, a_pending, ahead, starts
):
    site = Site([a_card("gpu0", gpu_model="A100")])
    site.run("old", "gpu0", mem_mib=1000, queue="heavy", start_time=NOW - 60)
    owners = (Queue("heavy", 1, "all"), Queue("other", 0.4, "all"))
    view = site.view(a_pending("new", queue="other", gpu_mem_mib=1000), queues=owners)
    decision = decide(replace(view, ahead_gpu_s=ahead), beside(1.4), RULES)
    assert bool(decision.admissions) is starts
