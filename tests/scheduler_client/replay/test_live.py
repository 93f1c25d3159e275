"""The live loop's own policies in a replay."""

import numpy as np
import pytest

from scheduler_client.baselines.fair_share import FairShare
from scheduler_client.policy.decide import PolicyRules
from scheduler_client.policy.eviction_cost import EvictionRules
from scheduler_client.policy.policies import policy_named
from scheduler_client.policy.service_levels import LevelRules
from scheduler_client.replay.live import LivePolicy, PairForecasts
from scheduler_client.replay.simulation import Costs

GOOD, BAD = np.full((2, 2), 1.05), np.full((2, 2), 1.9)


def live(name, slowdown=GOOD, mem_mib=(1000, 1000)):
    forecasts = PairForecasts(("a", "b"), slowdown, slowdown, mem_mib, 8000)
    return LivePolicy(policy_named(name, PolicyRules()), forecasts)


def replayed(toy_replay, jobs, policy, **site):
    simulation = toy_replay(jobs, slowdown=GOOD, **site)
    simulation.run(policy)
    return simulation


JOBS = [(0, 10, 1, 0, 0), (1, 10, 1, 1, 1), (2, 5, 1, 0, 0)]


def test_colocate_of_the_loop_shares_by_prediction(toy_replay):
    shared = replayed(toy_replay, JOBS[:2], live("colocate"), cards=1)
    assert shared.first_start_s == [0, 1]
    assert max(shared.shared_s) > 9
    alone = replayed(toy_replay, JOBS[:2], live("colocate", BAD), cards=1)
    assert alone.first_start_s == [0, 10]


def test_memory_is_reserved_and_given_back(toy_replay):
    simulation = replayed(toy_replay, JOBS, live("colocate", mem_mib=(5000, 5000)), cards=1)
    assert simulation.shared_s == [0, 0, 0]
    assert max(simulation.finish_s) == 25


def test_exclusive_of_the_loop_goes_by_submission(toy_replay):
    simulation = replayed(toy_replay, JOBS, live("exclusive"), cards=1)
    assert simulation.first_start_s == [0, 10, 20]


@pytest.mark.parametrize("name", ["colocate", "exclusive", "fifo_shared"])
def test_every_policy_of_the_loop_does_all_work(toy_replay, name):
    rng = np.random.default_rng(7)
    arrival = np.sort(rng.uniform(0, 300, 60))
    columns = (rng.uniform(5, 90, 60), rng.choice([1, 1, 2, 3], 60), *rng.integers(0, 2, (2, 60)))
    jobs = list(zip(arrival, *columns, strict=True))
    simulation = replayed(toy_replay, jobs, live(name), cards=4)
    assert max(simulation.finish_s) < float("inf")
    assert live(name).name == f"live_{name}"


def test_sharing_by_the_loop_waits_less_than_fair_share_alone(toy_replay):
    jobs = [(i, 50, 1, i % 2, i % 2) for i in range(20)]
    ours = replayed(toy_replay, jobs, live("colocate"), cards=2)
    alone = replayed(toy_replay, jobs, FairShare(), cards=2)
    assert sum(ours.first_start_s) < sum(alone.first_start_s)


def test_a_queue_takes_back_its_nominal_quota(toy_replay):
    """Queue 0 borrows all cards; what queue 1 is entitled to is freed for it within the event."""
    jobs = [(0, 1000, 1, 0, 0), (1, 1000, 1, 0, 0), (50, 100, 1, 1, 1)]
    simulation = replayed(toy_replay, jobs, live("colocate", BAD), cards=2, quotas=(1, 1))
    assert simulation.first_start_s == [0, 1, 50]
    assert simulation.evictions in ([1, 0, 0], [0, 1, 0])


def test_an_evicted_job_starts_again_as_another_attempt_and_ends(toy_replay):
    jobs = [(0, 1000, 2, 0, 0), (50, 100, 1, 1, 1)]
    simulation = replayed(toy_replay, jobs, live("colocate", BAD), cards=2, quotas=(1, 1))
    assert simulation.evictions == [1, 0]
    assert simulation.finish_s[1] == 150
    assert 1000 < simulation.finish_s[0] < float("inf")


def test_cards_are_kept_for_a_gang_against_a_stream_of_small_jobs(toy_replay):
    small = [(i * 40, 100, 1, 0, 0) for i in range(60)]
    gang = (1, 100, 3, 0, 0)
    jobs = sorted([*small, gang])
    simulation = replayed(toy_replay, jobs, live("colocate", BAD), cards=3)
    assert simulation.first_start_s[jobs.index(gang)] < 1500


def test_a_job_is_charged_for_all_the_time_that_it_holds_a_card(toy_replay):
    """Queue 0 has had the card, so that queue 1, which comes later, goes before it."""
    jobs = [(0, 100, 1, 0, 0), (10, 50, 1, 0, 0), (20, 50, 1, 1, 0)]
    policy = live("colocate", BAD)
    simulation = replayed(toy_replay, jobs, policy, cards=1, quotas=(1, 0))
    assert simulation.first_start_s[0] == 0
    assert sum(policy._usage.gpu_time_s.values()) == pytest.approx(200.0, rel=0.01)


BY_SERVICE = PolicyRules(
    order=LevelRules((50.0,), least_run_s=10.0), eviction=EvictionRules(most=5, window_s=1e6)
)


def attained(slowdown=BAD):
    forecasts = PairForecasts(("a", "b"), slowdown, slowdown, (1000, 1000), 8000)
    policy = policy_named("colocate", BY_SERVICE)
    return LivePolicy(policy, forecasts, name="live_attained")


def test_who_had_enough_makes_room_for_a_new_job_as_in_the_index(toy_replay):
    """As in ``test_colocate``: one policy, carried out in two ways. The third job's queue lends."""
    jobs = [(0, 100, 1, 0, 0), (70, 10, 1, 0, 0), (500, 1, 1, 1, 0)]
    site = {"cards": 1, "quotas": (0, 1), "costs": Costs(20, 5)}
    simulation = toy_replay(jobs, slowdown=BAD, **site)
    simulation.run(attained())
    assert simulation.first_start_s == [0, 70, 500]
    assert simulation.finish_s == [80 + 40 + 5, 80, 501]
    assert simulation.evictions == [1, 0, 0]


def test_by_attained_time_all_work_is_done_and_nobody_is_evicted_too_often(toy_replay):
    rng = np.random.default_rng(3)
    arrival = np.sort(rng.uniform(0, 400, 60))
    columns = (rng.uniform(5, 90, 60), rng.choice([1, 1, 2, 3], 60), *rng.integers(0, 2, (2, 60)))
    jobs = list(zip(arrival, *columns, strict=True))
    simulation = toy_replay(jobs, slowdown=GOOD, cards=4, quotas=(2, 2))
    simulation.run(attained(GOOD))
    assert max(simulation.finish_s) < float("inf")
    assert sum(simulation.evictions) > 0
    assert max(simulation.evictions) <= 5
