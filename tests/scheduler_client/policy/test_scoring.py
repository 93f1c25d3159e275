import pytest

from data.domain import Estimate, Source
from scheduler_client.policy.decisions import ALONE
from scheduler_client.policy.predictions import Colocation
from scheduler_client.policy.scoring import (
    Bound,
    Candidate,
    ScoreWeights,
    cost,
    score,
    worst_slowdown,
)


def slow(value: float, upper: float) -> Estimate:
    return Estimate(value, 1.0, upper, "m/1", Source.MODEL)


PAIR = Colocation(slow(1.2, 1.4), (slow(1.1, 1.3),))


def total(candidate: Candidate, *, gang_waits: bool = False) -> float:
    return score(candidate, Bound.UPPER, ScoreWeights(), gang_waits=gang_waits).total


def test_cost_sums_what_everybody_loses(a_card):
    candidate = Candidate(a_card("gpu0", "gan"), 100, PAIR)
    assert cost(candidate, Bound.UPPER) == pytest.approx(0.7)
    assert cost(candidate, Bound.VALUE) == pytest.approx(0.3)
    assert worst_slowdown(PAIR, Bound.UPPER) == 1.4


def test_without_a_model_cost_is_deepshares(a_card):
    guess = Colocation(ALONE, (), gpu_util_cost=1.0)
    candidate = Candidate(a_card(free_mem_mib=6144), 2048, guess)
    assert cost(candidate, Bound.UPPER) == pytest.approx(0.5 * 1.0 + 0.5 * 0.5)


def test_less_slowdown_is_better(a_card):
    shared = a_card("gpu0", "gan")
    worse = Colocation(slow(1.3, 1.5), (slow(1.1, 1.3),))
    assert total(Candidate(shared, 100, PAIR)) > total(Candidate(shared, 100, worse))


def test_with_equal_slowdowns_more_memory_left_is_better(a_card):
    roomy, tight = a_card("gpu0", "gan"), a_card("gpu1", "gan", free_mem_mib=200)
    assert total(Candidate(roomy, 100, PAIR)) > total(Candidate(tight, 100, PAIR))


def test_scores_are_graded_between_zero_and_one(a_card):
    found = [total(Candidate(a_card(), 100, Colocation(slow(v, v)))) for v in (1.0, 1.5, 4.0)]
    assert found == sorted(found, reverse=True)
    assert all(0 < value <= 1 for value in found)


def test_empty_cards_are_worth_keeping_only_while_a_gang_waits(a_card):
    easy = Colocation(slow(1.02, 1.05), (slow(1.02, 1.05),))
    shared = Candidate(a_card("gpu0", "gan"), 100, easy)
    empty = Candidate(a_card("gpu1"), 100, Colocation(ALONE))
    assert total(empty) > total(shared)
    assert total(empty, gang_waits=True) < total(shared, gang_waits=True)
