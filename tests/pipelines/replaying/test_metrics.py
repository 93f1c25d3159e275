"""Metrics of a replay, against sums done by hand."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from pipelines.replaying.metrics import (
    colocations,
    mean_jct_by_queue,
    metrics_of,
    oracle_gain_share,
    paired_difference,
    progress,
    worst_against,
    worst_user_against,
)
from scheduler_client.baselines.fifo import FifoFixed, FifoPooled, FifoShared
from scheduler_client.replay.outcome import Outcome

JOBS = [(0, 10, 1, 0, 0), (0, 30, 1, 0, 0), (0, 20, 1, 1, 0)]


@pytest.fixture
def outcome_of(toy_replay):
    def outcome(policy, slowdown=((1.5,),), **site):
        simulation = toy_replay(JOBS, slowdown=slowdown, **site)
        simulation.run(policy)
        events = pd.DataFrame(simulation.log.columns(simulation.trace, 8))
        return Outcome.of(simulation), events

    return outcome


def test_delays_and_jct_are_those_of_the_jobs(outcome_of):
    outcome, events = outcome_of(FifoPooled(), cards=1)
    metrics = metrics_of(outcome)
    assert metrics["mean_queueing_delay_s"] == pytest.approx((0 + 10 + 40) / 3)
    assert metrics["median_jct_s"] == 40
    assert metrics["makespan_s"] == 60
    assert metrics["utilisation"] == pytest.approx(0.5)  # all arrive at once: until the end
    assert metrics["mean_colocated_slowdown"] == 1.0
    assert colocations(events) == {"colocations": 0.0}


def test_queues_are_compared_with_their_own_fixed_quota(outcome_of):
    pooled, _ = outcome_of(FifoPooled(), quotas=(1, 1))
    fixed, _ = outcome_of(FifoFixed(), quotas=(1, 1))
    assert mean_jct_by_queue(fixed).tolist() == [25, 20]
    assert mean_jct_by_queue(pooled).tolist() == [20, 30]
    assert worst_against(pooled, fixed) == 1.5
    assert progress(fixed).tolist() == [0.8, 1.0]
    assert metrics_of(fixed)["jain"] == pytest.approx(1.8**2 / (2 * (0.64 + 1)))


def test_colocations_count_the_slower_of_both_sides(outcome_of):
    _, events = outcome_of(FifoShared(np.ones((1, 1), bool)), cards=1, slowdown=((1.15,),))
    found = colocations(events)
    assert found["colocations"] == 2
    assert (found["slowdown_upto_1.1"], found["slowdown_upto_1.2"]) == (0.0, 1.0)
    assert "above_tolerance_share" not in found
    for tolerances, above in (
        ("1.100, of neighbours 1.200", 1.0),
        ("1.200, of neighbours 1.200", 0),
    ):
        stated = events.assign(reason=f"tolerance {tolerances}")
        assert colocations(stated)["above_tolerance_share"] == above


def test_paired_difference_has_an_interval_around_its_mean(outcome_of):
    ours, _ = outcome_of(FifoPooled())
    other, _ = outcome_of(FifoPooled(), cards=1)
    mean, low, high = paired_difference(ours.jct_s, other.jct_s, seed=1)
    assert mean == pytest.approx(((10 - 10) + (30 - 40) + (30 - 60)) / 3)
    assert low <= mean <= high


def test_share_of_no_gain_is_unknown():
    assert np.isnan(oracle_gain_share({"a": 1.0, "b": 1.0, "c": 1.0}, "a", "b", "c"))


def test_users_are_compared_with_fixed_quotas_where_they_are_known(outcome_of):
    pooled, _ = outcome_of(FifoPooled(), quotas=(1, 1))
    fixed, _ = outcome_of(FifoFixed(), quotas=(1, 1))
    assert np.isnan(worst_user_against(pooled, fixed))
    named = replace(pooled, trace=replace(pooled.trace, users=("ann", "bob", "ann")))
    expected = ((10 + 30) / 2) / ((10 + 20) / 2)
    assert worst_user_against(named, fixed) == pytest.approx(expected)
