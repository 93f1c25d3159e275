"""What must hold of reservations and evictions, in whatever state the cluster is.

`make test` tries a few examples of each, always the same; `make test-properties` thousands.
"""

from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from data.domain import JobRequest, Resident
from scheduler_client.policy.decide import PolicyRules, decide
from scheduler_client.policy.decisions import Ground, Reason
from scheduler_client.policy.ledger import Ledger
from scheduler_client.policy.reserving import ReservationRules
from scheduler_client.policy.service_levels import attained_gpu_s
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
from tests.scheduler_client.policy.situations import (
    EPSILON,
    LEVELS,
    MOST_JOBS,
    examples,
    situations,
)
from tests.scheduler_client.policy.test_policy_battery import (
    gangs_are_whole,
    no_card_is_oversubscribed,
    no_job_is_placed_twice_or_forgotten,
    quotas_hold,
)

RULES = PolicyRules(max_jobs_per_card=MOST_JOBS, reservation=ReservationRules(after_s=0.0))
BY_SERVICE = replace(RULES, order=LEVELS)
NOW = 1000.0

in_both_orders = pytest.mark.parametrize("rules", [RULES, BY_SERVICE], ids=["fair", "attained"])


@st.composite
def contested(draw) -> tuple[ClusterView, dict]:
    """A situation in which queues reclaim and preempt, with reservations and past evictions."""
    view, predictions = draw(situations())
    queues = tuple(
        replace(
            q,
            reclaims=draw(st.sampled_from(Whom)),
            preempts=draw(st.sampled_from([*Whom][:2])),
            borrows=draw(st.sampled_from([*Whom][:2])),
        )
        for q in view.queues
    )
    mem = {
        job.job_id: tuple(draw(st.integers(0, 4000)) for _ in job.card_ids) for job in view.running
    }
    running = tuple(
        replace(
            job,
            start_time=draw(st.sampled_from([0.0, 500.0, 990.0])),
            priority=draw(st.integers(-3, 3)),
            mem_mib=mem[job.job_id],
            is_stopping=draw(st.sampled_from([False, False, False, True])),
            attained_gpu_s=draw(st.sampled_from([0.0, 0.0, 300.0])),
        )
        for job in view.running
    )
    names = [p.job.job_id for p in view.pending] + [r.job_id for r in running]
    past = draw(st.lists(st.tuples(*[st.sampled_from(names)] * 2), max_size=6)) if names else []
    evictions = tuple(PastEviction(job, other, 900.0) for job, other in past if job != other)
    kept = draw(st.sets(st.sampled_from(names), max_size=2)) if names else set()
    cards = [card.card_id for card in view.cards]
    reservations = tuple(
        Reservation(
            job_id, 0.0, tuple(draw(st.lists(st.sampled_from(cards), unique=True, max_size=2)))
        )
        for job_id in sorted(kept)
        if cards
    )
    view = replace(
        view, queues=queues, running=running, evictions=evictions, reservations=reservations
    )
    return view, predictions


def without(view: ClusterView, victims: tuple[str, ...]) -> ClusterView:
    ledger = Ledger(view)
    gone = {job.job_id: job for job in view.running if job.job_id in victims}
    for job in gone.values():
        ledger.release(job)
    cards = tuple(ledger.cards[card.card_id] for card in view.cards)
    return replace(
        view, cards=cards, running=tuple(r for r in view.running if r.job_id not in gone)
    )


@in_both_orders
@examples(60)
@given(situation=contested())
def test_with_reservations_and_evictions_the_invariants_hold(rules, situation):
    view, predictions = situation
    decision = decide(view, predictions, rules)
    no_job_is_placed_twice_or_forgotten(view, decision)
    gangs_are_whole(view, decision)
    no_card_is_oversubscribed(view, decision, MOST_JOBS)
    quotas_hold(view, decision)


@in_both_orders
@examples(60)
@given(situation=contested())
def test_nobody_starts_on_a_card_that_is_kept_for_another(rules, situation):
    view, predictions = situation
    unknown = {job_id: replace(f, runtime=None) for job_id, f in predictions.items()}
    pending = {p.job.job_id for p in view.pending}
    healthy = {card.card_id for card in view.cards if card.is_healthy}
    held: dict[str, str] = {}
    for kept in view.reservations:
        if kept.job_id in pending and set(kept.card_ids) <= healthy:
            for card_id in kept.card_ids:
                held.setdefault(card_id, kept.job_id)
    for admission in decide(view, unknown, rules).admissions:
        owners = {held.get(card_id, admission.job_id) for card_id in admission.card_ids}
        assert owners == {admission.job_id}


@in_both_orders
@examples(80)
@given(situation=contested())
def test_a_victim_set_that_does_not_let_the_preemptor_start_is_never_executed(rules, situation):
    view, predictions = situation
    decision = decide(view, predictions, rules)
    started = {admission.job_id for admission in decision.admissions}
    later = replace(
        after_admissions(view, decision),
        evictions=(),
        reservations=tuple(r for r in decision.reservations if r.card_ids),
    )
    for eviction in decision.evictions:
        assert eviction.job_id not in started
        assert eviction.victims
        later = without(later, eviction.victims)
        one = tuple(p for p in view.pending if p.job.job_id == eviction.job_id)
        # Alone in the queue, so that pressure and thus tolerance are no higher than they were.
        gentle = replace(rules, tolerance=replace(rules.tolerance, least=0.5, most=0.5))
        (admission,) = decide(replace(later, pending=one), predictions, gentle).admissions
        assert len(admission.card_ids) == one[0].job.gpus
        later = after_admissions(
            replace(later, pending=one), decide(replace(later, pending=one), predictions, gentle)
        )


def after_admissions(view: ClusterView, decision) -> ClusterView:
    ledger, running = Ledger(view), list(view.running)
    jobs = {p.job.job_id: p for p in view.pending}
    for a in decision.admissions:
        pending = jobs.pop(a.job_id)
        job = pending.job
        ledger.admit(job, a.card_ids, a.mem_mib)
        running.append(
            RunningJob(
                job.job_id,
                job.user,
                job.queue,
                job.job_key,
                a.card_ids,
                view.now,
                mem_mib=a.mem_mib,
            )
        )
    cards = tuple(ledger.cards[card.card_id] for card in view.cards)
    return replace(view, cards=cards, pending=tuple(jobs.values()), running=tuple(running))


def settled(view: ClusterView, predictions, rules):
    """Return the view and the decision once nobody starts any more.

    Who is placed beside another takes half of a card's quota off that one's queue, for which a job
    that had its turn before may have waited: it starts in the next cycle.
    """
    decision = decide(view, predictions, rules)
    while decision.admissions:
        view = after_admissions(view, decision)
        decision = decide(view, predictions, rules)
    return view, decision


def check_ground(eviction, victim, preemptor, queue, kept_since):
    """Assert that a queue has the right by which one of its jobs has a victim evicted."""
    ground, is_own = eviction.ground, victim.queue == queue.name
    by_priority = ground is Ground.PRIORITY
    if by_priority:
        assert queue.preempts is Whom.LOWER_PRIORITY
        assert (victim.queue, victim.user) == (queue.name, preemptor.job.user)
    elif ground is Ground.SERVICE:
        assert (queue.preempts if is_own else queue.borrows) is Whom.LOWER_PRIORITY
        assert NOW - victim.start_time >= LEVELS.least_run_s
        assert LEVELS.level(attained_gpu_s(victim, NOW)) > 0
    elif is_own:  # it passed a gang that waited
        assert ground is Ground.PASSED
        assert queue.preempts is Whom.LOWER_PRIORITY
        assert victim.start_time > kept_since[eviction.job_id]
        assert len(victim.card_ids) < preemptor.job.gpus
    else:
        assert queue.reclaims is not Whom.NEVER
        by_priority = queue.reclaims is Whom.LOWER_PRIORITY
    if by_priority:
        assert victim.priority < preemptor.priority


@in_both_orders
@examples(80)
@given(situation=contested())
def test_evictions_respect_what_queues_allow(rules, situation):
    view, predictions = situation
    decision = decide(view, predictions, rules)
    jobs = {p.job.job_id: p for p in view.pending}
    running = {job.job_id: job for job in view.running}
    queues = {queue.name: queue for queue in view.queues}
    victims = [victim for eviction in decision.evictions for victim in eviction.victims]
    assert len(victims) == len(set(victims))
    past = [(e.job_id, e.for_job_id) for e in view.evictions]
    held = Ledger(view).held_by_queue
    since = {kept.job_id: kept.since_time for kept in view.reservations}
    for eviction in decision.evictions:
        assert eviction.victims
        preemptor, queue = jobs[eviction.job_id], queues[jobs[eviction.job_id].job.queue]
        for name in eviction.victims:
            victim = running[name]
            assert not victim.is_stopping
            assert (eviction.job_id, name) not in past  # no A-B-A within the window
            assert [job for job, _ in past].count(name) < rules.eviction.most
            if victim.queue != queue.name:  # on what others lent to its queue
                lent_to = queues[victim.queue]
                assert lent_to.cohort == queue.cohort is not None
                assert held[lent_to.name] > lent_to.nominal_quota_gpus - EPSILON
            assert rules is BY_SERVICE or eviction.ground is not Ground.SERVICE
            check_ground(eviction, victim, preemptor, queue, since)


@in_both_orders
@examples(60)
@given(situation=contested(), seed=st.randoms(use_true_random=False))
def test_the_same_contested_view_gives_the_same_decision_in_any_order(rules, situation, seed):
    view, predictions = situation
    listed = [[*view.cards], [*view.pending], [*view.running], [*view.queues], [*view.evictions]]
    for items in listed:
        seed.shuffle(items)
    cards, pending, running, queues, evictions = map(tuple, listed)
    shuffled = replace(
        view, cards=cards, pending=pending, running=running, queues=queues, evictions=evictions
    )
    decision, other = decide(view, predictions, rules), decide(shuffled, predictions, rules)
    assert decide(view, predictions, rules) == decision
    assert (other.admissions, other.evictions, other.reservations) == (
        decision.admissions,
        decision.evictions,
        decision.reservations,
    )


@in_both_orders
@examples(80)
@given(situation=contested())
def test_work_is_conserved(rules, situation):
    """No single job waits while a fitting card is empty, kept for nobody, and within quota."""
    before, predictions = situation
    view, decision = settled(before, predictions, rules)
    ledger, jobs = Ledger(view), {p.job.job_id: p for p in view.pending}
    queues = {queue.name: queue for queue in view.queues}
    if any(kept.job_id in jobs for kept in view.reservations):
        return  # cards are kept empty on purpose
    worn = [e.job_id for e in view.evictions]
    for waiting in decision.waiting:
        pending = jobs[waiting.job_id]
        job, queue = pending.job, queues.get(pending.job.queue)
        if job.gpus > 1 or queue is None or queue.is_held:
            continue
        if worn.count(job.job_id) >= rules.eviction.most:
            continue
        needs = [e.upper for e in predictions[job.job_id].memory.values()]
        most_mib = max([job.gpu_mem_mib or 0, *needs])
        for card in view.cards:
            is_open = card.is_healthy and not card.residents and card.total_mem_mib >= most_mib
            if is_open and pending.gpu_model in (None, card.gpu_model):
                assert not ledger.book.allows(queue.name, {queue.name: 1.0})


@st.composite
def borrowed_clusters(draw) -> ClusterView:
    """Equal cards, all quotas in one cohort that reclaims; one queue wants what is its own."""
    cards = draw(st.integers(1, 7))
    nominal = [draw(st.integers(0, cards))]
    nominal.append(draw(st.integers(0, cards - nominal[0])))
    nominal.append(cards - sum(nominal))
    queues = tuple(Queue(f"q{n}", gpus, "all", reclaims=Whom.ANY) for n, gpus in enumerate(nominal))
    states = {f"gpu{n}": CardState(f"gpu{n}", "A100", 8192, 8192) for n in range(cards)}
    free, running, number = sorted(states), [], 0
    while free:
        size = draw(st.integers(1, min(3, len(free))))
        if draw(st.sampled_from([True, True, False])):
            job_id, mine = f"r{number}", tuple(free[:size])
            queue = draw(st.sampled_from(["q0", "q1", "q2"]))
            running.append(
                RunningJob(job_id, "bob", queue, "gan", mine, 0.0, mem_mib=(8000,) * size)
            )
            for card_id in mine:
                states[card_id] = states[card_id].with_resident(Resident(job_id, "gan"), 8000)
        free, number = free[size:], number + 1
    job = JobRequest("new", "ada", "q0", "bert", 0.0, draw(st.integers(1, cards)), 8000)
    return ClusterView(NOW, tuple(states.values()), (PendingJob(job),), tuple(running), queues)


@examples(150)
@given(view=borrowed_clusters())
def test_nominal_quota_is_always_recoverable(view):
    (pending,) = view.pending
    held = Ledger(view).held_by_queue.get("q0", 0.0)
    assume(held + pending.job.gpus <= view.queues[0].nominal_quota_gpus)
    decision = decide(view, {}, RULES)
    if decision.admissions:
        return
    (eviction,) = decision.evictions
    assert eviction.ground is Ground.RECLAIM
    later = without(view, eviction.victims)
    (admission,) = decide(replace(later, reservations=decision.reservations), {}, RULES).admissions
    assert (admission.job_id, len(admission.card_ids)) == ("new", pending.job.gpus)


@examples(150)
@given(view=borrowed_clusters())
def test_no_cheaper_single_victim_would_have_done(view):
    (pending,) = view.pending
    assume(pending.job.gpus == 1)
    decision = decide(view, {}, RULES)
    for eviction in decision.evictions:
        for job in view.running:
            alone = without(view, (job.job_id,))
            does = decide(replace(alone, reservations=()), {}, RULES).admissions
            over = Ledger(view).held_by_queue[job.queue]
            nominal = next(q for q in view.queues if q.name == job.queue).nominal_quota_gpus
            if does and job.queue != "q0" and over > nominal:
                assert eviction.cost_gpu_s <= NOW * len(job.card_ids) + EPSILON


@examples(60)
@given(view=borrowed_clusters())
def test_whoever_holds_no_more_than_is_its_own_is_never_a_victim(view):
    held = Ledger(view).held_by_queue
    within = {q.name for q in view.queues if held.get(q.name, 0.0) <= q.nominal_quota_gpus}
    running = {job.job_id: job.queue for job in view.running}
    for eviction in decide(view, {}, RULES).evictions:
        assert not within.intersection(running[victim] for victim in eviction.victims)


@examples(60)
@given(view=borrowed_clusters())
def test_a_job_beyond_its_nominal_quota_evicts_nobody(view):
    (pending,) = view.pending
    held = Ledger(view).held_by_queue.get("q0", 0.0)
    assume(held + pending.job.gpus > view.queues[0].nominal_quota_gpus)
    decision = decide(view, {}, RULES)
    assert decision.evictions == ()
    assert all(waiting.reason is not Reason.FREEING for waiting in decision.waiting)
