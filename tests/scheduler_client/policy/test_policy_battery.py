"""What must hold for every policy, whatever the cluster looks like."""

import random
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_client.policy.colocation_table import ColocationTable
from scheduler_client.policy.decide import PolicyRules, decide
from scheduler_client.policy.ledger import Ledger
from scheduler_client.policy.outlook import Outlooks
from scheduler_client.policy.policies import POLICIES, policy_named
from scheduler_client.policy.predictions import CardClass, JobForecast
from scheduler_client.policy.quota import most_gpus, unlent_gpus
from scheduler_client.policy.scoring import Bound, bounded
from scheduler_client.policy.view import ClusterView
from tests.scheduler_client.policy.plain import plain_decisions
from tests.scheduler_client.policy.situations import (
    EPSILON,
    LEVELS,
    MOST_JOBS,
    examples,
    situations,
)


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
@examples(60)
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
@examples(25)
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


@examples(60)
@given(situation=situations())
def test_colocate_shares_only_what_was_predicted_and_is_tolerated(situation):
    view, predictions = situation
    rules = PolicyRules(max_jobs_per_card=MOST_JOBS)
    decision = policy_named("colocate", rules).decide(view, predictions)
    for admission in decision.admissions:
        tolerated = dict(admission.evidence)["tolerance"]
        found = [admission.slowdown, *(estimate for _, estimate in admission.neighbours)]
        assert all(bounded(estimate, rules.bound) <= tolerated for estimate in found)


@examples(25)
@given(situation=situations())
def test_exclusive_never_shares_a_card(situation):
    view, predictions = situation
    decision = policy_named("exclusive", PolicyRules()).decide(view, predictions)
    ledger = after(view, decision)
    for admission in decision.admissions:
        for card_id in admission.card_ids:
            assert [r.job_id for r in ledger.cards[card_id].residents] == [admission.job_id]


def as_table(forecast: JobForecast) -> JobForecast:
    known = forecast.colocations
    index = {card: row for row, card in enumerate(known)}
    return replace(forecast, colocations=ColocationTable.of(index, list(known.values())))


@pytest.mark.parametrize("bound", list(Bound))
@examples(100)
@given(situation=situations())
def test_a_table_of_colocations_is_the_mapping_it_was_made_of(bound, situation):
    _, predictions = situation
    for forecast in predictions.values():
        table = as_table(forecast).colocations
        assert dict(table) == forecast.colocations
        classes = [*table, CardClass("A100"), CardClass("A100", ("nobody",))]
        outlooks = Outlooks(bound, classes)
        for column, other in zip(outlooks.tabled(table), outlooks.listed(dict(table)), strict=True):
            assert np.array_equal(column, other, equal_nan=True)


@pytest.mark.parametrize("order", ["fair", "fifo", LEVELS], ids=["fair", "fifo", "attained"])
@examples(150)
@given(
    situation=situations(),
    most_jobs=st.sampled_from([1, 2, 3]),
    asks=st.booleans(),
    tabled=st.booleans(),
)
def test_groups_of_cards_decide_as_card_by_card(order, situation, most_jobs, asks, tabled):
    view, predictions = situation
    if tabled:
        predictions = {job_id: as_table(forecast) for job_id, forecast in predictions.items()}
    rules = PolicyRules(order=order, max_jobs_per_card=most_jobs, asks=asks)
    decision = decide(view, predictions, rules)
    admitted, waits = plain_decisions(view, predictions, rules)
    assert [(a.job_id, a.card_ids) for a in decision.admissions] == admitted
    assert {w.job_id: w.reason for w in decision.waiting} == waits
