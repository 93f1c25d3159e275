"""Each published policy on a few jobs, against the order that its paper gives."""

import numpy as np
import pytest

from data.errors import SettingError
from scheduler_client.baselines.fair_share import FairShare
from scheduler_client.baselines.fifo import FifoFixed, FifoPooled, FifoShared
from scheduler_client.baselines.lucid import Lucid
from scheduler_client.baselines.remaining import LeastRemaining
from scheduler_client.baselines.shortest import GroupMeans, qssf, sjf_oracle
from scheduler_client.baselines.tiresias import Tiresias
from scheduler_client.replay.simulation import Costs

YES = np.ones((1, 1), bool)


def started(simulation, policy):
    simulation.run(policy)
    return simulation.first_start_s


def test_fixed_quota_leaves_a_full_queue_waiting_beside_idle_cards(toy_replay):
    jobs = [(0, 10, 1, 0, 0), (0, 10, 1, 0, 0), (0, 10, 1, 1, 0)]
    assert started(toy_replay(jobs, quotas=(1, 1)), FifoFixed()) == [0, 10, 0]


@pytest.mark.parametrize("quotas", [(1, 2), (2, 0)])
def test_fixed_quotas_that_cannot_hold_the_jobs_are_refused(toy_replay, quotas):
    simulation = toy_replay([(0, 10, 1, 0, 0), (0, 10, 1, 1, 0)], quotas=quotas)
    with pytest.raises(SettingError, match="wanted at least"):
        simulation.run(FifoFixed())


def test_first_job_of_a_pool_blocks_those_behind_it(toy_replay):
    jobs = [(0, 10, 1, 0, 0), (1, 10, 2, 0, 0), (2, 10, 1, 0, 0)]
    assert started(toy_replay(jobs), FifoPooled()) == [0, 10, 20]


def test_blind_sharing_uses_empty_cards_first_and_then_any(toy_replay):
    jobs = [(0, 10, 1, 0, 0), (0, 10, 1, 0, 0), (0, 10, 2, 0, 0), (0, 10, 1, 0, 0)]
    simulation = toy_replay(jobs)
    assert started(simulation, FifoShared(YES)) == [0, 0, 0, 10]


def test_blind_sharing_respects_memory(toy_replay):
    jobs = [(0, 10, 1, 0, 0), (0, 10, 1, 0, 0)]
    assert started(toy_replay(jobs, cards=1), FifoShared(~YES)) == [0, 10]


def test_oracle_starts_the_shortest_and_passes_a_gang_that_does_not_fit(toy_replay):
    jobs = [(0, 10, 1, 0, 0), (1, 2, 2, 0, 0), (1, 3, 1, 0, 0), (2, 5, 1, 0, 0), (2, 4, 1, 0, 0)]
    assert started(toy_replay(jobs), sjf_oracle()) == [0, 13, 1, 8, 4]


def test_least_remaining_evicts_who_has_more_left_and_pays_for_it(toy_replay):
    jobs = [(0, 1000, 1, 0, 0), (100, 50, 1, 0, 0), (110, 940, 1, 0, 0)]
    simulation = toy_replay(jobs, cards=1, costs=Costs(checkpoint_s=60, restart_s=5))
    assert started(simulation, LeastRemaining()) == [0, 100, 160]
    assert simulation.evictions == [1, 0, 0]
    assert simulation.finish_s == [1120 + 1000 - 60 + 5, 150, 1100]


def test_group_means_fall_back_to_the_queue_and_then_to_everybody(toy_replay):
    jobs = [(0, 10, 1, 0, 0), (0, 30, 2, 0, 0), (0, 1, 1, 1, 0), (0, 1, 4, 0, 0)]
    means = GroupMeans(toy_replay(jobs, cards=4).trace)
    assert means.runtime_s(3) == 1.0
    means.observe(0)
    means.observe(1)
    assert [means.runtime_s(job) for job in range(4)] == [10, 30, 20, 20]
    assert means.key(3) == 80


def test_quasi_shortest_service_prefers_the_queue_that_has_been_short(toy_replay):
    jobs = [(0, 9, 1, 0, 0), (0, 2, 1, 1, 0), (20, 5, 1, 0, 0), (20, 5, 1, 1, 0)]
    assert started(toy_replay(jobs, cards=1), qssf())[2:] == [25, 20]


def test_fair_share_goes_to_the_queue_with_the_lowest_share(toy_replay):
    jobs = [(0, 10, 2, 0, 0), (0, 10, 1, 0, 0), (1, 10, 1, 1, 0)]
    assert started(toy_replay(jobs, quotas=(1, 1)), FairShare())[1:] == [10, 10]
    assert started(toy_replay(jobs, quotas=(9, 1), cards=2), FairShare())[1:] == [10, 10]


def test_new_job_takes_the_cards_of_one_that_had_enough(toy_replay):
    jobs = [(0, 100, 1, 0, 0), (50, 10, 1, 0, 0)]
    simulation = toy_replay(jobs, cards=1, costs=Costs(checkpoint_s=20, restart_s=5))
    simulation.run(Tiresias(threshold_gpu_s=30))
    assert simulation.finish_s == [60 + 60 + 5, 60]
    assert simulation.evictions == [1, 0]


def test_new_job_waits_for_one_that_had_little(toy_replay):
    jobs = [(0, 100, 1, 0, 0), (50, 10, 1, 0, 0)]
    simulation = toy_replay(jobs, cards=1)
    simulation.run(Tiresias(threshold_gpu_s=60))
    assert simulation.evictions == [1, 0]
    assert simulation.first_start_s == [0, 60]


def test_victims_that_do_not_suffice_are_left_alone(toy_replay):
    jobs = [(0, 20, 1, 0, 0), (0, 100, 1, 0, 0), (15, 10, 2, 0, 0)]
    simulation = toy_replay(jobs, costs=Costs(10, 0))
    simulation.run(Tiresias(threshold_gpu_s=18))
    assert simulation.first_start_s[2] == 18  # the second victim's time has come only then


@pytest.mark.parametrize(("scores", "begins"), [((0, 2), 0), ((1, 1), 0), ((1, 2), 10)])
def test_two_jobs_are_packed_up_to_a_score_of_two(toy_replay, scores, begins):
    simulation = toy_replay([(0, 10, 1, 0, 0), (0, 10, 1, 0, 1)], 1, np.ones((2, 2)))
    assert max(started(simulation, Lucid(scores, np.ones((2, 2), bool)))) == begins


def test_gang_is_packed_with_a_gang_of_its_size_alone(toy_replay):
    jobs = [(0, 10, 2, 0, 0), (1, 10, 2, 0, 0), (2, 10, 1, 0, 0)]
    assert started(toy_replay(jobs), Lucid([1], YES)) == [0, 1, 11]
