"""Whatever arrives, every policy's log passes the independent check, and does so again alike."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from pipelines.replaying.check import checked_log
from pipelines.replaying.reclaim import reclaim_waits_s
from scheduler_client.baselines.fair_share import FairShare
from scheduler_client.baselines.fifo import FifoFixed, FifoPooled, FifoShared
from scheduler_client.baselines.lucid import Lucid
from scheduler_client.baselines.remaining import LeastRemaining
from scheduler_client.baselines.shortest import qssf, sjf_oracle
from scheduler_client.baselines.tiresias import Tiresias
from scheduler_client.policy.policies import policy_named
from scheduler_client.policy.reserving import ReservationRules
from scheduler_client.policy.rules import PolicyRules
from scheduler_client.policy.service_levels import LevelRules
from scheduler_client.replay.colocate import Colocate, ColocateRules
from scheduler_client.replay.live import LivePolicy, PairForecasts
from scheduler_client.replay.reclaiming import ReclaimRules
from scheduler_client.replay.simulation import Costs
from scheduler_client.replay.victims import VictimRules
from tests.scheduler_client.policy.situations import examples

CARDS = 4
SLOW = np.array([[1.1, 1.9, 1.0], [1.6, 1.4, 1.2], [1.3, 1.1, 1.7]])
FITS = np.array([[True, True, False], [True, True, True], [False, True, True]])
RECLAIM = ReclaimRules(grace_s=4, every_s=3)
EAGER = ColocateRules(
    levels=LevelRules((20.0, 60.0), least_run_s=5),
    eviction=VictimRules(fresh_s=0),
    reclaim=RECLAIM,
    observe_s=5,
)
POLICIES = {
    "fifo_fixed": FifoFixed,
    "fifo_pooled": FifoPooled,
    "fifo_shared": lambda: FifoShared(FITS),
    "sjf_oracle": sjf_oracle,
    "srpt_oracle": LeastRemaining,
    "qssf": qssf,
    "fair_share": FairShare,
    "tiresias": lambda: Tiresias(40),
    "lucid": lambda: Lucid([0, 1, 2], FITS),
    "colocate": lambda: Colocate(np.ones((3, 3)), FITS, rules=EAGER),
}
JOB = st.tuples(
    st.integers(0, 100),
    st.integers(1, 90),
    st.integers(1, CARDS),
    st.integers(0, 1),
    st.integers(0, 2),
)


AMONG_THREE = (
    *(st.integers(0, 100), st.integers(1, 90), st.integers(1, CARDS)),
    *(st.integers(0, 2), st.integers(0, 2)),
)
CHECKS = [HealthCheck.function_scoped_fixture, *examples(60).suppress_health_check]


@pytest.mark.parametrize("name", POLICIES)
@settings(examples(60), suppress_health_check=CHECKS)
@given(jobs=st.lists(JOB, min_size=1, max_size=25))
def test_log_of_any_trace_holds_and_is_the_same_again(toy_replay, name, jobs):
    logs = []
    for _ in range(2):
        simulation = toy_replay(
            [*sorted(jobs), (100, 1, 1, 1, 0)], 2 * CARDS, SLOW, (CARDS, CARDS), Costs(20, 3)
        )
        simulation.run(POLICIES[name]())
        logs.append(pd.DataFrame(simulation.log.columns(simulation.trace, 4)))
    assert checked_log(logs[0]).faults == ()
    pd.testing.assert_frame_equal(logs[0], logs[1])


@settings(examples(60), suppress_health_check=CHECKS)
@given(jobs=st.lists(st.tuples(*AMONG_THREE), min_size=1, max_size=25))
def test_queue_gets_its_nominal_quota_within_the_grace_and_one_look(toy_replay, jobs):
    quotas = (CARDS, 3, 1)
    simulation = toy_replay([*sorted(jobs), (100, 1, 1, 2, 0)], 2 * CARDS, SLOW, quotas)
    simulation.run(POLICIES["colocate"]())
    log = pd.DataFrame(simulation.log.columns(simulation.trace, 4))
    waits_s = reclaim_waits_s(log, simulation.trace.queues, quotas)
    assert waits_s.max(initial=0.0) <= RECLAIM.grace_s + RECLAIM.every_s


QUOTAS = st.sampled_from([(4, 3, 1), (2, 3, 3), (5, 2, 1), (6, 1, 1), (0, 4, 4), (8, 0, 0)])
GANGS = (*(st.integers(0, 100), st.integers(1, 90), st.integers(1, 6)), *AMONG_THREE[3:])
AT_ONCE = PolicyRules(reservation=ReservationRules(after_s=0.0))
BY_LEVELS = PolicyRules(order=LevelRules((1e9,), grace_s=4.0, reserve_after_s=0.0))
ALL_BESIDE = [(0, 1, 2, 0, 1), (0, 1, 2, 0, 1), (0, 1, 2, 0, 1), (0, 1, 6, 1, 1)]
EXHAUSTED = {  # the cheapest victim was all that its queue had to give, and too little
    "jobs": [
        *((0, 1, 2, 1, 1), (0, 2, 2, 2, 1), (0, 2, 3, 1, 2), (0, 2, 6, 0, 2), (0, 3, 2, 2, 1)),
        *((1, 1, 1, 0, 2), (1, 1, 2, 2, 0)),
    ],
    "quotas": (4, 3, 1),
}
IN_HALVES = {  # a gang holds too much only once two of its neighbours have left
    "jobs": [(0, 1, 1, 0, 0), (0, 1, 1, 0, 1), *ALL_BESIDE, (1, 2, 3, 2, 0)],
    "quotas": (0, 4, 4),
}
FOR_ONE_CARD = {  # the same, for a job of one card
    "jobs": [(0, 1, 1, 0, 1), *ALL_BESIDE, (0, 2, 3, 2, 1), (1, 1, 1, 2, 0)],
    "quotas": (0, 4, 4),
}


@pytest.mark.parametrize(("rules", "grace_s"), [(AT_ONCE, 0.0), (BY_LEVELS, 4.0)])
@settings(examples(40), suppress_health_check=CHECKS)
@example(**EXHAUSTED)
@example(**IN_HALVES)
@example(**FOR_ONE_CARD)
@given(jobs=st.lists(st.tuples(*GANGS), min_size=1, max_size=25), quotas=QUOTAS)
def test_queue_gets_its_nominal_quota_in_the_live_loop_within_the_grace_and_a_cycle(
    toy_replay, rules, grace_s, jobs, quotas
):
    """Reservations are made at once, so that the cards that are kept are as often in the way."""
    simulation = toy_replay([*sorted(jobs), (100, 1, 1, 2, 0)], 2 * CARDS, SLOW, quotas)
    cycle_s = 0.125
    forecasts = PairForecasts(("a", "b", "c"), SLOW, SLOW, (1000,) * 3, 8000)
    looks_after_s = (cycle_s, grace_s + cycle_s)
    simulation.run(
        LivePolicy(policy_named("colocate", rules), forecasts, looks_after_s=looks_after_s)
    )
    log = pd.DataFrame(simulation.log.columns(simulation.trace, 4))
    assert checked_log(log).faults == ()
    waits_s = reclaim_waits_s(log, simulation.trace.queues, quotas)
    assert waits_s.max(initial=0.0) <= grace_s + 2 * cycle_s
