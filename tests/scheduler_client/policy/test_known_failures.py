"""What users of other schedulers complained about, by the thread where they did.

The simulation drives the policy over a cluster in memory, with the reservations and evictions of
one cycle handed to the next, as the loop does it.
"""

from collections import Counter
from dataclasses import replace
from itertools import count

import pytest

from data.domain import Estimate, JobRequest, Outcome, Resident, Source
from scheduler_client.clusters import Launch
from scheduler_client.explaining.next_steps import next_step
from scheduler_client.explaining.wait import wait_estimate
from scheduler_client.memory_cluster import InMemoryCluster
from scheduler_client.policy.decide import PolicyRules, decide
from scheduler_client.policy.decisions import Reason
from scheduler_client.policy.eviction_cost import EvictionHistory, EvictionRules, eviction_costs
from scheduler_client.policy.explain import explanation
from scheduler_client.policy.queue_order import Ageing
from scheduler_client.policy.reserving import ReservationRules
from scheduler_client.policy.view import (
    CardState,
    ClusterView,
    PastEviction,
    PendingJob,
    Queue,
    Reservation,
    RunningJob,
    Whom,
)

RULES = PolicyRules(reservation=ReservationRules(after_s=0.0))
GUARANTEED = Queue("guaranteed", 4, "all", reclaims=Whom.ANY)
BEST_EFFORT = Queue("best-effort", 0, "all")


class World:
    """Cards of 8,192 MiB, jobs that want one for themselves; every step goes to the next end."""

    def __init__(self, cards: int, queues: tuple[Queue, ...], rules: PolicyRules = RULES) -> None:
        states = [CardState(f"gpu{n}", "A100", 8192, 8192) for n in range(cards)]
        self.cluster = InMemoryCluster(states, lambda launch: self.work_s[launch.job_id], _slow)
        self.queues, self.rules = queues, rules
        self.work_s: dict[str, float] = {}
        self.pending: dict[str, PendingJob] = {}
        self.running: dict[str, RunningJob] = {}
        self.started: list[tuple[float, str]] = []
        self.past: list[PastEviction] = []
        self.kept: tuple[Reservation, ...] = ()
        self._numbers = count()

    def submit(self, queue: str, work_s: float, gpus: int = 1, **fields) -> str:
        job_id = f"{queue}-{next(self._numbers)}"
        own = {n: fields.pop(n) for n in ("priority",) if n in fields}
        request = JobRequest(
            job_id, fields.pop("user", queue), queue, queue, self.cluster.now, gpus, 8000, **fields
        )
        self.work_s[job_id] = work_s
        self.pending[job_id] = PendingJob(request, **own)
        return job_id

    def view(self) -> ClusterView:
        return ClusterView(
            self.cluster.now,
            self.cluster.cards(),
            tuple(self.pending.values()),
            tuple(self.running.values()),
            self.queues,
            reservations=self.kept,
            evictions=tuple(self.past),
        )

    def cycle(self):
        """Decide, start, and evict; victims end at once and wait again."""
        decision = decide(self.view(), {}, self.rules)
        self.kept = decision.reservations
        for admission in decision.admissions:
            job = self.pending.pop(admission.job_id).job
            self.started.append((self.cluster.now, job.job_id))
            cards, mem = admission.card_ids, admission.mem_mib
            self.running[job.job_id] = RunningJob(
                job.job_id, job.user, job.queue, job.job_key, cards, self.cluster.now, mem_mib=mem
            )
            self.cluster.start(Launch(job.job_id, 1, job.job_key, (), cards, mem))
        for eviction in decision.evictions:
            for victim in eviction.victims:
                self.past.append(PastEviction(victim, eviction.job_id, self.cluster.now))
                job = self.running.pop(victim)
                request = JobRequest(
                    victim,
                    job.user,
                    job.queue,
                    job.job_key,
                    self.cluster.now,
                    len(job.card_ids),
                    8000,
                )
                self.pending[victim] = PendingJob(request)
            self.cluster.stop(eviction.victims, Outcome.PREEMPTED, 0.0)
        for ended in self.cluster.poll():
            self.running.pop(ended.job_id, None)
        return decision

    def step(self, most_s: float = 1e9) -> None:
        self.cycle()
        now = self.cluster.now
        self.cluster.advance(min(self.cluster.next_end() or now + 1.0, now + most_s))
        for ended in self.cluster.poll():
            self.running.pop(ended.job_id, None)

    def starts(self, job_id: str) -> int:
        return [job for _, job in self.started].count(job_id)


def _slow(key, others):
    return 1.0


def test_kueue_3779_best_effort_is_not_evicted_and_readmitted_in_a_loop():
    world = World(4, (GUARANTEED, BEST_EFFORT))
    for _ in range(6):
        world.submit("best-effort", 300.0)
    for _ in range(40):
        if len([p for p in world.pending.values() if p.job.queue == "guaranteed"]) < 2:
            world.submit("guaranteed", 40.0)
        world.step(20.0)
    evictions = Counter(e.job_id for e in world.past)
    assert max(evictions.values(), default=0) <= RULES.eviction.most
    pairs = {(e.job_id, e.for_job_id) for e in world.past}
    assert not any((b, a) in pairs for a, b in pairs)


def test_kueue_7101_evictions_of_one_job_are_counted_and_bounded():
    rules = replace(RULES, eviction=EvictionRules(most=2))
    world = World(2, (replace(GUARANTEED, nominal_quota_gpus=2), BEST_EFFORT), rules)
    victim = world.submit("best-effort", 10_000.0)
    for _ in range(30):
        world.submit("guaranteed", 50.0, gpus=2)
        world.step()
    assert Counter(e.job_id for e in world.past)[victim] <= 2


def test_kueue_13662_a_victim_is_not_readmitted_onto_the_cards_that_it_left():
    world = World(2, (replace(GUARANTEED, nominal_quota_gpus=2), BEST_EFFORT))
    for _ in range(2):
        world.submit("best-effort", 1000.0)
    world.cycle()
    gang = world.submit("guaranteed", 50.0, gpus=2)
    world.cycle()
    decision = world.cycle()
    assert [admission.job_id for admission in decision.admissions] == [gang]


def test_kueue_14543_fairness_holds_for_the_final_victims():
    """The borrower is over by one GPU only: a second victim would bring it below its own."""
    queues = (Queue("a", 2, "all", reclaims=Whom.ANY), Queue("b", 2, "all"))
    world = World(4, queues)
    for _ in range(3):
        world.submit("b", 500.0)
    world.submit("a", 500.0)
    world.cycle()
    world.submit("a", 50.0)
    (eviction,) = world.cycle().evictions
    assert len(eviction.victims) == 1
    world.submit("a", 50.0)
    assert world.cycle().evictions == ()


def test_kueue_477_and_volcano_5998_the_last_checkpoint_counts():
    running = tuple(
        RunningJob(name, "bob", "q", "k", (f"gpu{n}",), 0.0, saved_time=saved)
        for n, (name, saved) in enumerate([("saves", 900.0), ("silent", None)])
    )
    view = ClusterView(1000.0, (), (), running)
    costs = eviction_costs(view, EvictionHistory((), 1000.0, EvictionRules()))
    assert costs == {"saves": 100.0, "silent": 100.0}


def test_spur_888_no_victims_where_the_preemptor_could_not_start():
    """A gang of five on four cards, with quota for it: nobody is evicted, cycle after cycle."""
    world = World(4, (replace(GUARANTEED, nominal_quota_gpus=5), BEST_EFFORT))
    for _ in range(4):
        world.submit("best-effort", 1000.0)
    world.cycle()
    world.submit("guaranteed", 50.0, gpus=5)
    for _ in range(3):
        assert world.cycle().evictions == ()


def test_kueue_13159_a_pending_job_has_an_estimate_of_its_wait():
    world = World(1, (Queue("q", 1),))
    world.submit("q", 100.0)
    world.cycle()
    waits = world.submit("q", 100.0)
    decision = world.cycle()
    assert wait_estimate(decision.waiting, waits, world.view(), {}) is not None


def test_kai_2058_and_hami_1535_one_dominant_reason_in_plain_words(a_card, a_pending):
    cards = (*(a_card(f"gpu{n}", "gan", "gan") for n in range(7)), a_card("gpu7"))
    view = ClusterView(0.0, cards, (a_pending("7", gpus=2),), (), (Queue("research", 9),))
    (waiting,) = decide(view, {}, RULES).waiting
    assert waiting.reason is Reason.GANG
    assert "fewer cards would do than it needs at once" in explanation(waiting)
    assert dict(waiting.evidence)["cards_fitting"] == 1
    assert next_step(waiting)


def test_kai_1970_and_volcano_748_a_large_job_is_not_starved_by_a_small_stream():
    world = World(4, (Queue("large", 4, "all"), Queue("small", 0, "all")))
    for n in range(4):
        world.submit("small", 50.0 + 10 * n)
    world.cycle()
    gang = world.submit("large", 100.0, gpus=4)
    for _ in range(30):
        while len([p for p in world.pending.values() if p.job.queue == "small"]) < 2:
            world.submit("small", 60.0)
        world.step()
    assert world.starts(gang) == 1


@pytest.mark.parametrize(("nominal", "spare"), [((4, 0), 0), ((4, 0), 4), ((2, 2), 0), ((2, 2), 3)])
def test_kueue_3405_a_gang_is_not_starved_of_quota_by_a_small_stream(nominal, spare):
    queues = (Queue("large", nominal[0], "all"), Queue("small", nominal[1], "all"))
    world = World(4 + spare, queues)
    for n in range(4):
        world.submit("small", 50.0 + 10 * n)
    world.cycle()
    gang = world.submit("large", 100.0, gpus=3)
    for _ in range(40):
        while len([p for p in world.pending.values() if p.job.queue == "small"]) < 2:
            world.submit("small", 60.0)
        world.step()
    assert world.starts(gang) == 1


@pytest.mark.parametrize("preempts", [Whom.NEVER, Whom.LOWER_PRIORITY])
def test_a_gang_is_not_starved_by_small_jobs_of_its_own_queue(preempts):
    world = World(4, (Queue("lab", 4, "all", preempts=preempts),))
    for n in range(4):
        world.submit("lab", 50.0 + 10 * n, user="bob")
    world.cycle()
    gang = world.submit("lab", 100.0, gpus=4, user="ada")
    for _ in range(30):
        while len([p for p in world.pending.values() if p.job.user == "bob"]) < 2:
            world.submit("lab", 60.0, user="bob")
        world.step()
    assert world.starts(gang) == 1


def test_a_queue_does_not_wait_for_its_own_quota_while_its_gang_cannot_have_it():
    """A gang of all of a queue's quota waited for one long job, and its small jobs with it."""
    lab = Queue("lab", 4, "all", reclaims=Whom.ANY, preempts=Whom.LOWER_PRIORITY)
    world = World(6, (lab, Queue("others", 2, "all")))
    world.submit("lab", 3000.0)
    for _ in range(5):
        world.submit("others", 90_000.0)
    world.cycle()
    gang = world.submit("lab", 100.0, gpus=4)
    world.step(60.0)
    small = world.submit("lab", 20_000.0)
    world.cycle()
    world.step()
    assert (60.0, small) in world.started
    world.cycle()
    world.step()
    assert (3000.0, gang) in world.started
    world.step()
    assert world.starts(small) == 2


def test_kai_1970_waiting_raises_a_job_among_its_users_jobs(a_card, a_pending):
    old = a_pending("old", submit_time=0.0, gpu_mem_mib=8000, limit_s=1e6)
    new = a_pending("new", submit_time=6000.0, priority=3, gpu_mem_mib=8000, limit_s=1.0)
    view = ClusterView(6000.0, (a_card(),), (new, old), (), (Queue("research", 1),))
    rules = replace(RULES, ageing=Ageing(step_s=600.0, cap=10))
    assert [a.job_id for a in decide(view, {}, rules).admissions] == ["old"]


def test_volcano_3373_two_gangs_do_not_hold_half_each():
    world = World(3, (Queue("a", 2, "all"), Queue("b", 1, "all")))
    first, second = world.submit("a", 50.0, gpus=2), world.submit("b", 50.0, gpus=2)
    for _ in range(4):
        world.step()
    assert world.starts(first) == world.starts(second) == 1


def test_volcano_5805_a_gang_is_never_below_its_size():
    world = World(3, (replace(GUARANTEED, nominal_quota_gpus=3), BEST_EFFORT))
    world.submit("best-effort", 1000.0, gpus=3)
    world.cycle()
    world.submit("guaranteed", 50.0)
    for _ in range(4):
        world.cycle()
        held = Counter(r.job_id for card in world.cluster.cards() for r in card.residents)
        assert all(held[job] == len(world.running[job].card_ids) for job in held)


@pytest.mark.parametrize("gpus", [1, 2])
def test_volcano_3729_and_3869_two_queues_do_not_reclaim_each_other(gpus):
    queues = tuple(Queue(name, 2 * gpus, "all", reclaims=Whom.ANY) for name in ("a", "b"))
    world = World(4 * gpus, queues)
    for _ in range(4):
        world.submit("a", 400.0, gpus=gpus)
    world.cycle()
    for _ in range(4):
        world.submit("b", 400.0, gpus=gpus)
    for _ in range(12):
        world.step(10.0)
    assert len(world.past) == 2


def test_kueue_4809_a_job_beyond_its_quota_does_not_stop_one_within(a_card, a_pending):
    queues = (Queue("research", 1), Queue("other", 1))
    pending = (
        a_pending("beyond", gpus=2, priority=9, gpu_mem_mib=10),
        a_pending("within", gpu_mem_mib=10),
        a_pending("theirs", queue="other", user="bob", gpu_mem_mib=10),
    )
    view = ClusterView(0.0, (a_card("gpu0"), a_card("gpu1")), pending, (), queues)
    started = {admission.job_id for admission in decide(view, {}, RULES).admissions}
    assert started == {"within", "theirs"}


def test_kai_416_memory_is_whole_mib_and_never_beyond_the_card(a_pending):
    card = CardState("gpu0", "A100", 46_068, 46_068)
    rules = replace(RULES, max_jobs_per_card=64, asks=False)
    pending = tuple(a_pending(f"{n:02d}", gpu_mem_mib=2000) for n in range(24))
    view = ClusterView(0.0, (card,), pending, (), (Queue("research", 1),))
    decision = decide(view, {}, rules)
    assert len(decision.admissions) == 23
    assert sum(sum(a.mem_mib) for a in decision.admissions) <= 46_068


def test_kai_848_a_full_card_is_seen_as_full(a_card, a_pending):
    view = ClusterView(
        0.0, (a_card("gpu0", "gan", "gan"),), (a_pending(),), (), (Queue("research", 1),)
    )
    for _ in range(3):
        assert decide(view, {}, RULES).waiting[0].reason is Reason.CARD_FULL


def test_hami_302_quota_counts_cards_of_a_gang_one_by_one(a_card, a_pending):
    cards = tuple(a_card(f"gpu{n}") for n in range(4))
    view = ClusterView(0.0, cards, (a_pending(gpus=3),), (), (Queue("research", 2),))
    assert decide(view, {}, RULES).waiting[0].reason is Reason.QUOTA


def test_hami_2750_a_gang_gets_different_cards_though_one_has_room_for_more(a_card, a_pending):
    cards = (a_card("gpu0"), a_card("gpu1", "gan", "gan"))
    rules = replace(RULES, max_jobs_per_card=8, asks=False)
    view = ClusterView(
        0.0, cards[:1], (a_pending(gpus=2, gpu_mem_mib=10),), (), (Queue("research", 9),)
    )
    assert decide(view, {}, rules).admissions == ()


@pytest.mark.parametrize("gpus", [3, 5, 7])
def test_gpu_admission_1_odd_numbers_of_cards_fit(a_card, a_pending, gpus):
    cards = tuple(a_card(f"gpu{n}") for n in range(gpus))
    view = ClusterView(0.0, cards, (a_pending(gpus=gpus),), (), (Queue("research", 9),))
    assert len(decide(view, {}, RULES).admissions[0].card_ids) == gpus


def test_volcano_5313_jobs_of_one_cycle_do_not_pile_up_on_one_card(a_card, a_pending):
    cards = tuple(a_card(f"gpu{n}") for n in range(4))
    pending = tuple(a_pending(str(n), gpu_mem_mib=10) for n in range(4))
    view = ClusterView(0.0, cards, pending, (), (Queue("research", 4),))
    placed = [a.card_ids for a in decide(view, {}, replace(RULES, asks=False)).admissions]
    assert len(set(placed)) == 4


def test_skypilot_10283_what_is_unknown_is_not_free(a_pending):
    card = CardState("gpu0", "A100", 0, 0)
    view = ClusterView(0.0, (card,), (a_pending(gpu_mem_mib=1),), (), (Queue("research", 1),))
    assert decide(view, {}, RULES).admissions == ()


def test_a_neighbour_that_nobody_knows_is_kept_apart(a_card, a_pending):
    card = a_card().with_resident(Resident("foreign", "mystery"), 10)
    slow = Estimate(9.0, 8.0, 10.0, "m/1", Source.MODEL)
    assert slow.value > RULES.tolerance.most
    view = ClusterView(0.0, (card,), (a_pending(gpu_mem_mib=1),), (), (Queue("research", 1),))
    assert decide(view, {}, RULES).waiting[0].reason is Reason.NO_PREDICTION
