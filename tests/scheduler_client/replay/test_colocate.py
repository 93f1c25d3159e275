"""Our policy in the replay: shares by belief, learns, evicts who had enough, keeps quotas."""

from dataclasses import replace

import numpy as np
import pytest

from scheduler_client.policy.service_levels import LevelRules
from scheduler_client.policy.tolerance import ToleranceRule
from scheduler_client.replay.colocate import Colocate, ColocateRules
from scheduler_client.replay.reclaiming import ReclaimRules
from scheduler_client.replay.simulation import Costs
from scheduler_client.replay.spreading import SpreadRules
from scheduler_client.replay.victims import VictimRules

GOOD, BAD = np.array([[1.0, 1.05], [1.05, 1.0]]), np.array([[1.9, 1.8], [1.8, 1.9]])
STEADY = ToleranceRule(least=0.3, most=0.3)
NEVER = VictimRules(most=0)
EVICTING = {
    "levels": LevelRules((50.0,), least_run_s=10),
    "eviction": VictimRules(most=5, fresh_s=0),
}


def policy(slowdown, *, learns=False, eviction=NEVER, levels=None, **rules):
    fits = np.ones(slowdown.shape, bool)
    levels = replace(levels or LevelRules(), fresh_slowdown=rules.pop("fresh_slowdown", 1.0))
    chosen = ColocateRules(tolerance=STEADY, eviction=eviction, levels=levels, **rules)
    return Colocate(slowdown, fits, learns=learns, rules=chosen)


def replayed(toy_replay, jobs, chosen, slowdown=GOOD, **site):
    simulation = toy_replay(jobs, slowdown=slowdown, **site)
    simulation.run(chosen)
    return simulation


def test_jobs_share_a_card_when_their_slowdown_is_tolerable(toy_replay):
    jobs = [(0, 10, 1, 0, 0), (1, 10, 1, 0, 1)]
    assert replayed(toy_replay, jobs, policy(GOOD), cards=1).first_start_s == [0, 1]
    assert replayed(toy_replay, jobs, policy(BAD), BAD, cards=1).first_start_s == [0, 19 - 9]


def test_empty_card_is_preferred_to_any_neighbour(toy_replay):
    simulation = replayed(toy_replay, [(0, 10, 1, 0, 0), (1, 10, 1, 0, 0)], policy(GOOD))
    assert simulation.shared_s == [0, 0]


def test_mate_that_costs_least_is_chosen(toy_replay):
    slowdown = np.array([[1.2, 1.0], [1.0, 1.2]])
    jobs = [(0, 100, 1, 0, 0), (0, 100, 1, 0, 1), (1, 10, 1, 0, 0)]
    simulation = replayed(toy_replay, jobs, policy(slowdown), slowdown, quotas=(1,))
    assert simulation.shared_s == [0, 10, 10]


@pytest.mark.parametrize(("learns", "start_s"), [(True, 10), (False, 1)])
def test_pair_that_is_yet_to_be_measured_must_promise_more(toy_replay, learns, start_s):
    """The tolerance is 1.3, and nothing else waits for the one other card, which is taken."""
    slowdown = np.full((2, 2), 1.25)
    jobs = [(0, 10, 1, 0, 0), (0, 100, 7, 0, 1), (1, 10, 1, 0, 0)]
    chosen = policy(slowdown, learns=learns, caution=0.06)
    found = replayed(toy_replay, jobs, chosen, slowdown, cards=8, quotas=(1,))
    assert found.first_start_s[2] == start_s


@pytest.mark.parametrize(("crowd", "start_s"), [(0, 110), (16, 101)])
def test_pair_that_was_measured_in_a_crowd_needs_no_caution(toy_replay, crowd, start_s):
    slowdown = np.full((2, 2), 1.25)
    jobs = [(0, 20, 1, 0, 0)] * crowd + [
        (100, 10, 1, 0, 0),
        (100, 100, 7, 0, 1),
        (101, 10, 1, 0, 0),
    ]
    chosen = policy(slowdown, learns=True, caution=0.06, observe_s=5.0)
    found = replayed(toy_replay, jobs, chosen, slowdown, cards=8, quotas=(1,))
    assert found.first_start_s[-1] == start_s


def test_gang_takes_empty_cards_and_then_tolerable_halves(toy_replay):
    jobs = [(0, 100, 1, 0, 0), (1, 10, 3, 0, 1)]
    simulation = replayed(toy_replay, jobs, policy(GOOD), cards=3, quotas=(1,))
    assert simulation.first_start_s == [0, 1]
    assert simulation.shared_s == pytest.approx([10.5, 10.5])


def test_gang_is_not_slowed_for_one_job_beyond_tolerance(toy_replay):
    slowdown = np.array([[1.0, 1.05], [1.5, 1.0]])
    jobs = [(0, 10, 2, 0, 1), (1, 5, 1, 0, 0)]
    simulation = replayed(toy_replay, jobs, policy(slowdown), slowdown, quotas=(1,))
    assert simulation.first_start_s == [0, 10]


def test_queue_within_its_quota_is_hardly_slowed(toy_replay):
    slowdown = np.full((2, 2), 1.2)
    jobs = [(0, 10, 1, 0, 0), (1, 10, 1, 1, 1)]
    simulation = replayed(toy_replay, jobs, policy(slowdown), slowdown, cards=1, quotas=(1, 1))
    assert simulation.shared_s == [0, 0]
    crowded = replayed(toy_replay, jobs, policy(slowdown), slowdown, cards=1, quotas=(0, 0))
    assert crowded.shared_s[0] > 0


def test_queue_that_has_borrowed_is_slowed_until_it_would_have_had_as_much_alone(toy_replay):
    slowdown = np.full((2, 2), 1.2)
    borrowed = [(0, 100, 2, 0, 0)]  # on a quota of one card: as much alone by 200 s
    for late_s, shares in ((150, True), (201, False)):
        jobs = [*borrowed, (late_s, 200, 1, 0, 0), (late_s, 10, 2, 1, 1)]
        replay = replayed(toy_replay, jobs, policy(slowdown), slowdown, cards=2, quotas=(1, 1))
        assert (replay.shared_s[1] > 0) is shares


def test_job_gives_way_once_its_queue_asks_for_more_than_its_own(toy_replay):
    jobs = [(0, 100, 1, 0, 0), (70, 10, 1, 1, 0), (80, 10, 1, 0, 0)]
    for upto, evictions in ((2, [0, 0]), (3, [1, 0, 0])):
        chosen = policy(BAD, **EVICTING)
        simulation = replayed(toy_replay, jobs[:upto], chosen, BAD, cards=1, quotas=(1, 0))
        assert simulation.evictions == evictions


def test_job_that_has_just_come_may_slow_others_more_than_one_that_had_much(toy_replay):
    jobs = [(0, 10, 1, 0, 0), (1, 5, 1, 0, 1)]
    slowdown = np.full((2, 2), 1.6)
    for fresh_slowdown, start_s in ((1.7, 1), (1.5, 10)):
        chosen = policy(slowdown, fresh_slowdown=fresh_slowdown)
        simulation = replayed(toy_replay, jobs, chosen, slowdown, cards=1, quotas=(0,))
        assert simulation.first_start_s[1] == start_s


def test_measured_speed_replaces_a_wrong_prediction(toy_replay):
    jobs = [(0, 1000, 1, 0, 0), (0, 1000, 1, 0, 1), (5000, 100, 1, 0, 0), (5001, 100, 1, 0, 1)]
    learning = policy(GOOD, learns=True, observe_s=60.0)
    jobs.insert(2, (100, 1, 1, 0, 0))  # something must happen for anybody to look
    simulation = replayed(toy_replay, jobs, learning, BAD, cards=1, quotas=(0,))
    assert simulation.shared_s[0] > 0
    assert simulation.shared_s[3:] == [0, 0]
    frozen = replayed(toy_replay, jobs, policy(GOOD), BAD, cards=1, quotas=(0,))
    assert min(frozen.shared_s[3:]) > 0


def test_job_that_had_enough_makes_room_for_a_new_one(toy_replay):
    jobs = [(0, 100, 1, 0, 0), (70, 10, 1, 0, 0)]
    chosen = policy(BAD, **EVICTING)
    simulation = replayed(toy_replay, jobs, chosen, BAD, cards=1, quotas=(0,), costs=Costs(20, 5))
    assert simulation.first_start_s == [0, 70]
    assert simulation.finish_s == [80 + 40 + 5, 80]
    assert simulation.evictions == [1, 0]


@pytest.mark.parametrize(
    "rules",
    [
        {"levels": LevelRules((500.0,), least_run_s=10)},  # has not had enough
        {"levels": LevelRules((50.0,), least_run_s=80)},  # started not long ago
        {"levels": LevelRules((50.0,), least_run_s=10), "eviction": NEVER},
    ],
)
def test_nobody_is_evicted_before_the_rules_allow_it(toy_replay, rules):
    jobs = [(0, 100, 1, 0, 0), (70, 10, 1, 0, 0)]
    chosen = policy(BAD, **{"eviction": VictimRules()} | rules)
    assert replayed(toy_replay, jobs, chosen, BAD, cards=1, quotas=(0,)).evictions == [0, 0]


def test_victims_that_do_not_let_the_gang_start_are_spared(toy_replay):
    jobs = [(0, 100, 1, 0, 0), (65, 100, 1, 0, 0), (70, 10, 2, 0, 0)]
    chosen = policy(BAD, **EVICTING)
    simulation = replayed(toy_replay, jobs, chosen, BAD, quotas=(0,))
    assert simulation.evictions[1] == 0
    assert simulation.first_start_s[2] >= 100


def test_gang_gives_way_as_a_whole(toy_replay):
    jobs = [(0, 100, 2, 0, 0), (70, 10, 2, 0, 0)]
    chosen = policy(BAD, **EVICTING)
    simulation = replayed(toy_replay, jobs, chosen, BAD, quotas=(0,))
    assert simulation.first_start_s == [0, 70]
    assert simulation.evictions == [1, 0]


def test_slowed_job_moves_to_a_card_that_nobody_waits_for(toy_replay):
    slowdown = np.full((2, 2), 1.25)
    jobs = [(0, 1000, 1, 0, 0), (0, 60, 1, 0, 0), (0, 1000, 1, 0, 1), (500, 1, 1, 0, 0)]
    spread = SpreadRules(every_s=0, gain=1)
    site = {"cards": 2, "quotas": (0,), "costs": Costs(50, 5)}
    moved = replayed(toy_replay, jobs, policy(slowdown, spread=spread), slowdown, **site)
    never = SpreadRules(every_s=1e9)
    stayed = replayed(toy_replay, jobs, policy(slowdown, spread=never), slowdown, **site)
    assert sum(moved.evictions) >= 1
    assert max(moved.finish_s) < max(stayed.finish_s)


def test_queue_below_its_quota_takes_back_what_was_borrowed_after_the_grace(toy_replay):
    jobs = [(0, 1000, 1, 0, 0), (0, 1000, 1, 0, 0), (30, 50, 1, 1, 0)]
    chosen = policy(BAD, reclaim=ReclaimRules(grace_s=100, every_s=10))
    simulation = replayed(toy_replay, jobs, chosen, BAD, quotas=(1, 1))
    assert simulation.first_start_s[2] == 100
    assert sorted(simulation.evictions) == [0, 0, 1]


def test_borrowers_that_come_later_do_not_keep_a_gang_waiting_for_its_quota(toy_replay):
    short = [(0, 90, 1, 0, 0), (0, 45, 1, 0, 0), *[(1, 90, 1, 0, 0)] * 8]
    jobs = [*short, (30, 50, 2, 1, 0)]  # of the short ones none runs as long as the grace
    chosen = policy(BAD, reclaim=ReclaimRules(grace_s=100, every_s=10))
    simulation = replayed(toy_replay, jobs, chosen, BAD, quotas=(0, 2))
    assert simulation.first_start_s[-1] == 90


def test_queue_with_an_older_claim_is_not_refused_for_one_that_came_later(toy_replay):
    """The later one goes first, as its jobs are short, and the borrowers have grace before it."""
    known = [(0, 90, 1, 0, 0), (0, 1, 1, 2, 0), (1, 20, 1, 1, 0), (2, 24, 1, 0, 0)]
    jobs = [*known, *[(22, 90, 1, 0, 0)] * 8, (30, 50, 2, 1, 0), (50, 50, 2, 2, 0)]
    chosen = policy(BAD, reclaim=ReclaimRules(grace_s=100, every_s=10))
    simulation = replayed(toy_replay, jobs, chosen, BAD, quotas=(0, 2, 2))
    assert simulation.first_start_s[-2] == 90


def test_evicted_job_of_a_queue_below_its_quota_starts_again_at_once(toy_replay):
    jobs = [(0, 1000, 1, 0, 0), (0, 5, 1, 0, 0), (30, 1000, 1, 1, 0), (70, 10, 1, 2, 0)]
    chosen = policy(BAD, **EVICTING, reclaim=ReclaimRules(grace_s=5, every_s=10))
    site = {"quotas": (1, 0, 1), "costs": Costs(20, 5)}
    simulation = replayed(toy_replay, jobs, chosen, BAD, **site)
    assert simulation.first_start_s[3] == 70  # for which the first job was evicted
    assert simulation.finish_s[0] == 70 + 1000 - 60 + 5  # and took the borrower's card


def test_reclaim_spares_queues_within_their_quota(toy_replay):
    jobs = [(0, 1000, 1, 0, 0), (0, 1000, 1, 1, 0), (0, 1000, 1, 1, 0), (500, 50, 2, 2, 0)]
    chosen = policy(BAD, reclaim=ReclaimRules(grace_s=0, every_s=10))
    simulation = replayed(toy_replay, jobs, chosen, BAD, cards=3, quotas=(1, 0, 2))
    assert simulation.evictions[:3] == [0, 1, 1]
    assert simulation.first_start_s[3] == 500


def test_reclaim_evicts_nobody_where_it_does_not_help(toy_replay):
    jobs = [(0, 1000, 1, 0, 0), (0, 1000, 1, 1, 0), (500, 50, 2, 2, 0)]
    chosen = policy(BAD, reclaim=ReclaimRules(grace_s=0, every_s=10))
    simulation = replayed(toy_replay, jobs, chosen, BAD, cards=2, quotas=(1, 0, 2))
    assert simulation.evictions == [0, 0, 0]
