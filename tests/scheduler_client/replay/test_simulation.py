"""Work and time of jobs while their neighbours come and go, against sums done by hand."""

import numpy as np
import pytest

from data.errors import ClusterError, SettingError
from scheduler_client.replay.outcome import Outcome
from scheduler_client.replay.simulation import Costs

SLOW = ((1.0, 2.0), (1.5, 1.0))  # workload 0 halves beside 1, which loses a third


class Plan:
    """A policy that does at each moment what a test says."""

    name = "plan"

    def __init__(self, *actions):
        self._actions = actions  # (time, "start" or "evict", job, cards)

    def begin(self, simulation):
        self._simulation = simulation
        for time_s, *_ in self._actions:
            simulation.wake(time_s)

    def submitted(self, job):
        pass

    def finished(self, job):
        pass

    def schedule(self):
        now = self._simulation.now
        due = [action for action in self._actions if action[0] == now]
        self._actions = [action for action in self._actions if action[0] != now]
        for _, what, job, *cards in due:
            getattr(self._simulation, what)(job, *cards)


def test_work_is_conserved_while_a_neighbour_comes_and_goes(toy_replay):
    simulation = toy_replay([(0, 100, 1, 0, 0), (50, 20, 1, 0, 1)], cards=1, slowdown=SLOW)
    simulation.run(Plan((0, "start", 0, [0]), (50, "start", 1, [0])))
    # Alone to 50; then half speed beside job 1, which takes 20 x 1.5 = 30 s; 35 s of work remain.
    assert simulation.finish_s == [115.0, 80.0]
    assert simulation.slowdown_s == [15.0, 10.0]
    assert simulation.shared_s == [30.0, 30.0]


def test_gang_runs_at_its_slowest_card(toy_replay):
    simulation = toy_replay([(0, 100, 2, 0, 0), (0, 50, 1, 0, 1)], slowdown=SLOW)
    simulation.run(Plan((0, "start", 0, [0, 1]), (0, "start", 1, [1])))
    # Job 1 needs 75 s; the gang does 37.5 s of work in them, on both cards.
    assert simulation.finish_s == [137.5, 75.0]


def test_eviction_costs_what_came_after_the_checkpoint_and_a_restart(toy_replay):
    jobs, costs = [(0, 100, 2, 0, 0)], Costs(checkpoint_s=20, restart_s=5)
    simulation = toy_replay(jobs, costs=costs)
    simulation.run(Plan((0, "start", 0, [0, 1]), (50, "evict", 0), (70, "start", 0, [0, 1])))
    assert simulation.finish_s == [70 + 60 + 5]
    assert simulation.lost_s == 2 * (10 + 5)
    outcome = Outcome.of(simulation)
    assert outcome.queueing_delay_s.tolist() == [20.0]
    assert outcome.start_s.tolist() == [0.0]


def test_attained_service_grows_at_the_speed_of_the_job(toy_replay):
    simulation = toy_replay([(0, 30, 1, 0, 0), (0, 10, 1, 0, 1)], cards=1, slowdown=SLOW)
    seen = []

    class Watch(Plan):
        def finished(self, job):
            seen.append((simulation.attained_s(0), simulation.slowdown(0)))

    simulation.run(Watch((0, "start", 0, [0]), (0, "start", 1, [0])))
    assert seen[0] == (7.5, 1.0)


def test_utilisation_counts_useful_work_until_the_last_arrival(toy_replay):
    simulation = toy_replay([(0, 10, 1, 0, 0), (20, 10, 1, 0, 0)])
    simulation.run(Plan((0, "start", 0, [0]), (20, "start", 1, [1])))
    assert Outcome.of(simulation).utilisation == pytest.approx(0.5 * 10 / (2 * 20))


@pytest.mark.parametrize(
    ("actions", "wanted"),
    [
        ([(0, "start", 1, [0])], "cannot start"),  # has not arrived
        ([(0, "start", 0, [0])], "wanted 2"),  # half a gang
        ([(0, "start", 0, [0, 1]), (5, "start", 0, [0, 1])], "cannot start"),  # runs
        ([(0, "evict", 0)], "cannot be evicted"),
        ([(0, "start", 0, [0, 1])], "never ran"),  # job 1 is forgotten
    ],
)
def test_policy_cannot_break_the_rules(toy_replay, actions, wanted):
    simulation = toy_replay([(0, 10, 2, 0, 0), (5, 10, 2, 0, 0)])
    with pytest.raises(ClusterError, match=wanted):
        simulation.run(Plan(*actions))


def test_third_job_on_a_card_is_refused(toy_replay):
    simulation = toy_replay([(0, 10, 1, 0, 0)] * 3)
    with pytest.raises(ClusterError, match="no room"):
        simulation.run(Plan(*((0, "start", job, [0]) for job in range(3))))


def test_cluster_that_is_too_small_is_refused(toy_replay):
    with pytest.raises(SettingError, match="wanted a quota for each of 1 queues, 4 cards"):
        toy_replay([(0, 10, 4, 0, 0)], cards=2)


def test_workload_without_ground_truth_is_refused(toy_replay):
    with pytest.raises(SettingError, match="workload must be below 1"):
        toy_replay([(0, 10, 1, 0, 3)])


def test_log_names_neighbours_on_both_sides(toy_replay):
    simulation = toy_replay([(0, 100, 1, 0, 0), (50, 20, 1, 0, 1)], cards=1, slowdown=SLOW)
    simulation.run(Plan((0, "start", 0, [0]), (50, "start", 1, [0])))
    columns = simulation.log.columns(simulation.trace, gpus_per_node=8)
    chosen = [columns[name] for name in ("event", "job_id", "neighbour", "slowdown")]
    rows = list(zip(*chosen, strict=True))
    assert rows[3:5] == [("start", "job-1", "job-0", 1.5), ("change", "job-0", "job-1", 2.0)]
    assert rows[5:7] == [("finish", "job-1", "job-0", 1.5), ("change", "job-0", "", 1.0)]
    assert len(simulation.log) == len(rows) == 8
    assert np.isfinite(columns["time_s"]).all()
