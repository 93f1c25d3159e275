from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from data.domain import Estimate, Source
from scheduler_client.policy.assigning import minimum_contention
from scheduler_client.policy.decide import PolicyRules, decide
from scheduler_client.policy.decisions import Level
from scheduler_client.policy.ledger import Ledger
from scheduler_client.policy.predictions import CardClass, Colocation, JobForecast
from scheduler_client.policy.view import ClusterView, Queue
from tests.scheduler_client.policy.situations import MOST_JOBS, examples, situations
from tests.scheduler_client.policy.test_policy_battery import (
    gangs_are_whole,
    no_card_is_oversubscribed,
    no_job_is_placed_twice_or_forgotten,
    quotas_hold,
)

LIST = PolicyRules(max_jobs_per_card=MOST_JOBS)
JOINT = replace(LIST, assignment="joint")


def slow(value: float) -> Estimate:
    return Estimate(value, value, value, "m/1", Source.MODEL)


def forecast(**beside: float) -> JobForecast:
    known = {
        CardClass("A100", (key,)): Colocation(slow(value), (slow(1.0),))
        for key, value in beside.items()
    }
    return JobForecast(None, {}, known, Level.MODEL)


def total(decision) -> float:
    slowdowns = [
        estimate
        for a in decision.admissions
        for estimate in (a.slowdown, *(e for _, e in a.neighbours))
        if estimate is not None
    ]
    return sum(max(0.0, e.upper - 1) for e in slowdowns)


@pytest.fixture
def view(a_card, a_pending):
    """Two cards; the first job in turn likes `gan` best, the second can hardly bear `dlrm`."""
    cards = (a_card("gpu0", "gan"), a_card("gpu1", "dlrm"))
    pending = (a_pending("1", gpu_mem_mib=10), a_pending("2", gpu_mem_mib=10))
    return ClusterView(0.0, cards, pending, (), (Queue("research", 4),))


def test_jobs_exchange_cards_where_that_is_better_for_all_together(view):
    predictions = {"1": forecast(gan=1.1, dlrm=1.15), "2": forecast(gan=1.1, dlrm=1.45)}
    one_by_one, joint = (decide(view, predictions, rules) for rules in (LIST, JOINT))
    assert [a.card_ids for a in one_by_one.admissions] == [("gpu0",), ("gpu1",)]
    assert [a.card_ids for a in joint.admissions] == [("gpu1",), ("gpu0",)]
    assert total(joint) == pytest.approx(0.25)
    assert [a.slowdown.value for a in joint.admissions] == [1.15, 1.1]


def test_where_nothing_is_gained_everybody_keeps_its_card(view):
    predictions = {"1": forecast(gan=1.1, dlrm=1.2), "2": forecast(gan=1.1, dlrm=1.2)}
    assert decide(view, predictions, JOINT) == decide(view, predictions, LIST)


def test_cards_are_exchanged_only_within_a_queue(view):
    pending = tuple(
        replace(p, job=replace(p.job, queue=queue))
        for p, queue in zip(view.pending, ("a", "b"), strict=True)
    )
    view = replace(view, pending=pending, queues=(Queue("a", 4), Queue("b", 4)))
    predictions = {"1": forecast(gan=1.1, dlrm=1.15), "2": forecast(gan=1.1, dlrm=1.45)}
    assert decide(view, predictions, JOINT) == decide(view, predictions, LIST)


COSTS = st.lists(
    st.lists(st.sampled_from([0.0, 0.1, 0.25, 0.5, 1.0]), min_size=4, max_size=4),
    min_size=1,
    max_size=4,
)


@examples(60)
@given(rows=COSTS)
def test_no_other_assignment_costs_less(rows):
    costs = np.array(rows)
    chosen = minimum_contention(costs)
    assert len(set(chosen)) == len(rows)
    best = min(
        sum(costs[row, at] for row, at in enumerate(other))
        for other in permutations(range(4), len(rows))
    )
    assert sum(costs[row, at] for row, at in enumerate(chosen)) == pytest.approx(best)


def test_jobs_that_do_not_all_fit_are_an_error():
    with pytest.raises(ValueError, match="infeasible"):
        minimum_contention(np.array([[0.1, np.inf], [0.1, np.inf]]))


@examples(40)
@given(situation=situations())
def test_the_invariants_hold_and_contention_is_no_more(situation):
    view, predictions = situation
    joint, one_by_one = (decide(view, predictions, rules) for rules in (JOINT, LIST))
    no_job_is_placed_twice_or_forgotten(view, joint)
    gangs_are_whole(view, joint)
    no_card_is_oversubscribed(view, joint, MOST_JOBS)
    quotas_hold(view, joint)
    assert [a.job_id for a in joint.admissions] == [a.job_id for a in one_by_one.admissions]
    assert total(joint) <= total(one_by_one) + 1e-9
    held = [held_after(view, decision) for decision in (joint, one_by_one)]
    assert held[0] == pytest.approx(held[1])


def held_after(view, decision) -> dict[str, float]:
    ledger = Ledger(view)
    jobs = {pending.job.job_id: pending.job for pending in view.pending}
    for admission in decision.admissions:
        ledger.admit(jobs[admission.job_id], admission.card_ids, admission.mem_mib)
    return ledger.held_by_queue
