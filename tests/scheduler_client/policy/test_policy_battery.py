"""What must hold for every policy, whatever the cluster looks like."""

import random
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data.domain import Estimate, JobRequest, Resident, Source
from scheduler_client.policy.card_classes import card_classes
from scheduler_client.policy.decide import PolicyRules
from scheduler_client.policy.decisions import Level
from scheduler_client.policy.ledger import Ledger
from scheduler_client.policy.policies import POLICIES, policy_named
from scheduler_client.policy.predictions import Colocation, JobForecast
from scheduler_client.policy.quota import most_gpus, unlent_gpus
from scheduler_client.policy.scoring import bounded
from scheduler_client.policy.view import CardState, ClusterView, PendingJob, Queue, RunningJob

KEYS = ("bert", "gan", "dlrm")
MODELS = ("A100", "T4")
EPSILON = 1e-5
MOST_JOBS = 2


def estimates(low: float, high: float) -> st.SearchStrategy[Estimate]:
    widths = st.tuples(st.floats(0, 0.3), st.floats(0, 0.5))
    return st.builds(
        lambda value, width, known: Estimate(
            value, value * (1 - width[0]), value * (1 + width[1]), "m/1", Source.MODEL, known
        ),
        st.floats(low, high),
        widths,
        st.booleans(),
    )


@st.composite
def queue_lists(draw) -> tuple[Queue, ...]:
    limits = st.one_of(st.none(), st.floats(0, 3))
    queues = []
    for name in ("q0", "q1", "q2"):
        cohort = draw(st.sampled_from([None, "all", "all"]))
        queues.append(
            Queue(
                name,
                draw(st.sampled_from([0.0, 0.5, 1.0, 2.0, 4.0])),
                cohort,
                draw(limits) if cohort else None,
                draw(limits) if cohort else None,
                draw(st.sampled_from([0.5, 1.0, 2.0])),
                draw(st.sampled_from([False, False, False, True])),
            )
        )
    return tuple(queues)


@st.composite
def busy_clusters(draw) -> tuple[tuple[CardState, ...], tuple[RunningJob, ...]]:
    cards, running = [], []
    for number in range(draw(st.integers(0, 5))):
        model, total = draw(st.sampled_from(MODELS)), draw(st.sampled_from([4096, 8192]))
        card = CardState(f"gpu{number}", model, total, total)
        for slot in range(draw(st.integers(0, MOST_JOBS))):
            job_id, key = f"r{number}-{slot}", draw(st.sampled_from(KEYS))
            used = draw(st.integers(0, card.free_mem_mib))
            card = card.with_resident(Resident(job_id, key), used)
            queue = draw(st.sampled_from(["q0", "q1", "q2"]))
            running.append(RunningJob(job_id, "ada", queue, key, (card.card_id,), 0.0))
        cards.append(replace(card, is_healthy=draw(st.sampled_from([True, True, True, False]))))
    return tuple(cards), tuple(running)


@st.composite
def pending_jobs(draw, number: int) -> PendingJob:
    job = JobRequest(
        job_id=f"p{number}",
        user=draw(st.sampled_from(["ada", "bob"])),
        queue=draw(st.sampled_from(["q0", "q1", "q2", "unknown"])),
        job_key=draw(st.sampled_from(KEYS)),
        submit_time=draw(st.floats(0, 900)),
        gpus=draw(st.sampled_from([1, 1, 1, 2, 3])),
        gpu_mem_mib=draw(st.one_of(st.none(), st.integers(1, 9000))),
    )
    model = draw(st.sampled_from([None, None, *MODELS]))
    return PendingJob(job, draw(st.integers(-5, 5)), gpu_model=model)


@st.composite
def situations(draw) -> tuple[ClusterView, dict[str, JobForecast]]:
    cards, running = draw(busy_clusters())
    pending = tuple(draw(pending_jobs(n)) for n in range(draw(st.integers(0, 7))))
    view = ClusterView(1000.0, cards, pending, running, draw(queue_lists()))
    classes = card_classes(cards, KEYS, MOST_JOBS)
    predictions = {}
    for job in pending:
        known = [c for c in classes if draw(st.sampled_from([True, True, False]))]
        colocations = {
            c: Colocation(
                draw(estimates(1.0, 1.7)),
                tuple(draw(estimates(1.0, 1.7)) for _ in c.resident_keys),
            )
            for c in known
            if c.resident_keys
        }
        memory = {m: draw(estimates(1.0, 9000.0)) for m in MODELS if draw(st.booleans())}
        predictions[job.job.job_id] = JobForecast(None, memory, colocations, Level.MODEL)
    return view, predictions


def after(view: ClusterView, decision) -> Ledger:
    ledger = Ledger(view)
    jobs = {pending.job.job_id: pending.job for pending in view.pending}
    for admission in decision.admissions:
        ledger.admit(jobs[admission.job_id], admission.card_ids, admission.mem_mib)
    return ledger


def no_job_is_placed_twice_or_forgotten(view, decision) -> None:
    answered = [a.job_id for a in decision.admissions] + [w.job_id for w in decision.waiting]
    assert Counter(answered) == Counter(pending.job.job_id for pending in view.pending)


def gangs_are_whole(view, decision) -> None:
    jobs = {pending.job.job_id: pending for pending in view.pending}
    cards = {card.card_id: card for card in view.cards}
    for admission in decision.admissions:
        pending = jobs[admission.job_id]
        assert len(set(admission.card_ids)) == len(admission.card_ids) == pending.job.gpus
        models = {cards[card_id].gpu_model for card_id in admission.card_ids}
        assert len(models) == 1
        assert pending.gpu_model is None or models == {pending.gpu_model}
        assert all(cards[card_id].is_healthy for card_id in admission.card_ids)


def no_card_is_oversubscribed(view, decision, most_jobs: int) -> None:
    ledger = after(view, decision)
    for card in view.cards:
        later = ledger.cards[card.card_id]
        assert 0 <= later.free_mem_mib <= later.total_mem_mib
        if later != card:
            assert len(later.residents) <= most_jobs


def quotas_hold(view, decision) -> None:
    before, ledger = Ledger(view).held_by_queue, after(view, decision).held_by_queue
    admitted = {pending.job.queue for pending in view.pending} & {
        next(p.job.queue for p in view.pending if p.job.job_id == a.job_id)
        for a in decision.admissions
    }
    for queue in view.queues:
        held = ledger.get(queue.name, 0.0)
        if queue.name in admitted:
            assert not queue.is_held
            allowed = max(most_gpus(queue), before.get(queue.name, 0.0))
            assert held <= allowed + EPSILON
    for cohort in {queue.cohort for queue in view.queues} - {None}:
        members = [queue for queue in view.queues if queue.cohort == cohort]
        lendable = sum(q.nominal_quota_gpus - unlent_gpus(q) for q in members)
        taken = [
            sum(max(0.0, held.get(q.name, 0.0) - unlent_gpus(q)) for q in members)
            for held in (before, ledger)
        ]
        assert taken[1] <= max(lendable, taken[0]) + EPSILON


@pytest.mark.parametrize("name", POLICIES)
@settings(max_examples=60, deadline=None, derandomize=True)
@given(situation=situations())
def test_every_policy_keeps_the_invariants(name, situation):
    view, predictions = situation
    policy = policy_named(name, PolicyRules(max_jobs_per_card=MOST_JOBS))
    decision = policy.decide(view, predictions)
    no_job_is_placed_twice_or_forgotten(view, decision)
    gangs_are_whole(view, decision)
    no_card_is_oversubscribed(view, decision, policy.max_jobs_per_card)
    quotas_hold(view, decision)


@pytest.mark.parametrize("name", POLICIES)
@settings(max_examples=25, deadline=None, derandomize=True)
@given(situation=situations(), seed=st.integers(0, 1000))
def test_same_view_gives_same_answer_in_whatever_order_it_is_listed(name, situation, seed):
    view, predictions = situation
    policy = policy_named(name, PolicyRules(max_jobs_per_card=MOST_JOBS))
    listed = [list(view.cards), list(view.pending), list(view.running), list(view.queues)]
    for items in listed:
        random.Random(seed).shuffle(items)
    shuffled = replace(
        view,
        cards=tuple(listed[0]),
        pending=tuple(listed[1]),
        running=tuple(listed[2]),
        queues=tuple(listed[3]),
    )
    decision = policy.decide(view, predictions)
    assert policy.decide(view, predictions) == decision
    assert policy.decide(shuffled, predictions).admissions == decision.admissions


@settings(max_examples=60, deadline=None, derandomize=True)
@given(situation=situations())
def test_colocate_shares_only_what_was_predicted_and_is_tolerated(situation):
    view, predictions = situation
    rules = PolicyRules(max_jobs_per_card=MOST_JOBS)
    decision = policy_named("colocate", rules).decide(view, predictions)
    for admission in decision.admissions:
        tolerated = dict(admission.evidence)["tolerance"]
        found = [admission.slowdown, *(estimate for _, estimate in admission.neighbours)]
        assert all(bounded(estimate, rules.bound) <= tolerated for estimate in found)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(situation=situations())
def test_exclusive_never_shares_a_card(situation):
    view, predictions = situation
    decision = policy_named("exclusive", PolicyRules()).decide(view, predictions)
    ledger = after(view, decision)
    for admission in decision.admissions:
        for card_id in admission.card_ids:
            assert [r.job_id for r in ledger.cards[card_id].residents] == [admission.job_id]
