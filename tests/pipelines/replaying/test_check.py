"""The independent checker passes what replays write, and finds what was tampered with."""

import re

import numpy as np
import pandas as pd
import pytest

from data.errors import TableError
from pipelines.replaying.check import checked_log
from scheduler_client.baselines.fifo import FifoShared
from scheduler_client.baselines.tiresias import Tiresias
from scheduler_client.replay.outcome import Outcome
from scheduler_client.replay.simulation import Costs

SLOW = ((1.2, 2.0), (1.5, 1.1))


def some_jobs(count=60, seed=5):
    rng = np.random.default_rng(seed)
    arrival = np.sort(rng.uniform(0, 500, count))
    runtime, gpus = rng.uniform(5, 200, count), rng.choice([1, 1, 1, 2, 3], count)
    queue, workload = rng.integers(0, 2, (2, count))
    return list(zip(arrival, runtime, gpus, queue, workload, strict=True))


def replayed(toy_replay, policy):
    simulation = toy_replay(some_jobs(), cards=5, slowdown=SLOW, costs=Costs(20, 5))
    simulation.run(policy)
    return pd.DataFrame(simulation.log.columns(simulation.trace, 4)), Outcome.of(simulation)


@pytest.mark.parametrize("policy", [FifoShared(np.ones((2, 2), bool)), Tiresias(30)])
def test_log_of_a_replay_holds_and_gives_the_same_metrics(toy_replay, policy):
    events, outcome = replayed(toy_replay, policy)
    checked = checked_log(events)
    assert checked.faults == ()
    assert checked.metrics["mean_jct_s"] == pytest.approx(outcome.jct_s.mean())
    delay = outcome.queueing_delay_s.mean()
    assert checked.metrics["mean_queueing_delay_s"] == pytest.approx(delay)
    assert checked.metrics["evictions"] == outcome.evictions.sum()


def tampered(events, event, column, change):
    at = events.index[events["event"] == event][3]
    events = events.copy()
    events.loc[at, column] = change(events.loc[at, column])
    return events


@pytest.mark.parametrize(
    ("event", "column", "change", "found"),
    [
        ("submit", "work_s", lambda work: work + 1, "did .* s of work and owed"),
        ("submit", "gpus", lambda gpus: gpus + 1, "half a gang"),
        ("submit", "job_id", lambda _: "job-0", "submitted twice"),
        ("start", "neighbour", lambda _: "job-59", "its row says"),
        ("start", "job_id", lambda _: "job-99", "never submitted"),
        ("change", "slowdown", lambda slowdown: slowdown + 0.5, "its speeds say"),
        ("change", "gpu", lambda gpu: gpu + 100, "that it is not on"),
        ("finish", "gpu", lambda gpu: gpu + 100, "leaves only some"),
        ("finish", "time_s", lambda time: time - 300, "time runs back"),
        ("preempt", "work_s", lambda work: work + 100, "gains work"),
        ("preempt", "attempt", lambda attempt: attempt + 1, "wanted attempt"),
        ("finish", "event", lambda _: "vanish", "event is unknown"),
    ],
)
def test_tampering_is_found(toy_replay, event, column, change, found):
    policy = Tiresias(30) if event == "preempt" else FifoShared(np.ones((2, 2), bool))
    events, _ = replayed(toy_replay, policy)
    faults = checked_log(tampered(events, event, column, change)).faults
    assert any(re.search(found, fault) for fault in faults)


def test_log_that_stops_early_is_found(toy_replay):
    events, _ = replayed(toy_replay, Tiresias(30))
    assert "never finished" in checked_log(events.iloc[:-8]).faults[-1]


def test_job_alone_is_not_slowed(toy_replay):
    events, _ = replayed(toy_replay, Tiresias(30))
    events.loc[events["event"] == "start", "slowdown"] = 1.1
    assert any("beside nobody" in fault for fault in checked_log(events).faults)


def test_missing_column_is_named(toy_replay):
    events, _ = replayed(toy_replay, Tiresias(30))
    with pytest.raises(TableError, match="no column 'slowdown'"):
        checked_log(events.drop(columns="slowdown"))


def test_empty_log_has_no_jobs():
    columns = ["job_id", "attempt", "event", "time_s", "node", "gpu", "neighbour", "slowdown"]
    events = pd.DataFrame(columns=[*columns, "gpus", "work_s"])
    assert checked_log(events).metrics == {"jobs": 0.0}
