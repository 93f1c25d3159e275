"""Traces and clusters of a replay; the three numbers that check it on Philly."""

import numpy as np
import pandas as pd
import pytest

from data.errors import SettingError, TableError
from data.importers import philly
from pipelines.replaying.trace import quotas_for_load, site_for_load, site_from, trace_of
from scheduler_client.baselines.fifo import FifoFixed, FifoPooled
from scheduler_client.baselines.shortest import sjf_oracle
from scheduler_client.replay.outcome import Outcome
from scheduler_client.replay.simulation import Costs, Simulation
from scheduler_client.replay.truth import GroundTruth

ALONE = np.ones((1, 1))
TRUTH = GroundTruth(ALONE, ALONE > 0, ALONE > 2, ALONE[0], ("any",))


@pytest.fixture(scope="session")
def philly_trace(public_data):
    return trace_of(philly.read(public_data / "philly")["jobs"])


def mean_delay_s(trace, load, policy):
    simulation = Simulation(trace, site_for_load(trace, load, Costs()), TRUTH)
    simulation.run(policy)
    delay_s = Outcome.of(simulation).queueing_delay_s
    return round(delay_s.mean()), round(np.quantile(delay_s, 0.999) / 1e6, 2)


@pytest.mark.parametrize(("load", "cards"), [(0.5, 787), (0.7, 577), (0.9, 482), (1.1, 435)])
def test_cluster_of_an_offered_load_has_the_known_size(philly_trace, load, cards):
    assert site_for_load(philly_trace, load, Costs()).cards == cards


def as_counted(seconds):
    """Who of one second comes first was settled otherwise there: that moves means by 0.0003."""
    return pytest.approx(seconds, rel=5e-4)


def test_fixed_quotas_wait_as_long_as_counted_elsewhere(philly_trace):
    assert mean_delay_s(philly_trace, 0.9, FifoFixed()) == (as_counted(1_484_780), 4.63)
    assert mean_delay_s(philly_trace, 0.5, FifoFixed())[0] == as_counted(198_914)


def test_pool_waits_as_long_as_counted_elsewhere(philly_trace):
    assert mean_delay_s(philly_trace, 0.9, FifoPooled()) == (as_counted(687_015), 1.18)
    assert mean_delay_s(philly_trace, 0.5, FifoPooled())[0] == 916


def test_shortest_first_waits_about_as_long_as_counted_elsewhere(philly_trace):
    assert mean_delay_s(philly_trace, 0.5, sjf_oracle())[0] == 465
    # With a tail of a hundred large gangs, the order of ties moves the mean by some percent.
    assert mean_delay_s(philly_trace, 0.9, sjf_oracle())[0] == pytest.approx(14_257, rel=0.05)


def jobs_frame(**columns):
    jobs = {
        "job_id": ["a", "b", "c"],
        "user": ["u", "u", "v"],
        "queue": ["y", "x", "y"],
        "gpus": [1, 4, 1],
        "submit_time": [1e9 + 50, 1e9, 1e9 + 100],
        "runtime_s": [100.0, 10.0, 60.0],
    }
    return pd.DataFrame(jobs | columns)


def test_trace_is_in_order_of_arrival_with_queues_by_name():
    trace = trace_of(jobs_frame())
    assert trace.job_ids == ("b", "a", "c")
    assert trace.arrival_s.tolist() == [0, 50, 100]
    assert (trace.queues, trace.queue.tolist()) == (("x", "y"), [0, 1, 1])


def test_jobs_of_one_second_come_as_they_are_listed():
    many = 1_000
    jobs = pd.concat([jobs_frame(submit_time=1e9)] * many, ignore_index=True)
    jobs["job_id"] = np.arange(len(jobs)).astype(str)
    assert trace_of(jobs).job_ids == tuple(jobs["job_id"])
    assert trace_of(jobs, 1).job_ids == tuple(jobs["job_id"][:1])


def test_jobs_that_hold_no_card_are_left_out():
    assert trace_of(jobs_frame(gpus=[0, 4, 1], runtime_s=[5.0, 1.0, 0.0])).job_ids == ("b",)
    with pytest.raises(TableError, match="at least one"):
        trace_of(jobs_frame(gpus=0))


def test_quota_follows_use_and_holds_the_largest_gang():
    assert quotas_for_load(trace_of(jobs_frame()), 0.2) == (4, 8)


@pytest.mark.parametrize("load", [0.0, -1.0, float("nan")])
def test_load_must_be_above_zero(load):
    with pytest.raises(SettingError, match="load must be above 0"):
        quotas_for_load(trace_of(jobs_frame()), load)


def test_cluster_is_read_from_yaml(tmp_path):
    path = tmp_path / "cluster.yaml"
    path.write_text("gpus: 16\ngpus_per_node: 4\nquotas: {x: 4, y: 12}\n")
    site = site_from(path, trace_of(jobs_frame()), Costs())
    assert (site.cards, site.gpus_per_node, site.quotas) == (16, 4, (4, 12))


def test_cluster_without_quotas_shares_its_cards_by_use(tmp_path):
    path = tmp_path / "cluster.yaml"
    path.write_text("gpus: 10\n")
    assert site_from(path, trace_of(jobs_frame()), Costs()).quotas == (2, 8)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("gpus: many", "whole number"),
        ("gpus: 4\nnodes: 2", "wanted a mapping"),
        ("- 4", "wanted a mapping"),
        ("gpus: 4\nquotas: {z: 1}", "queues of the trace"),
        ("gpus: 4\nquotas: {x: -1}", "whole number from 0"),
        ("gpus: [", "cannot be read"),
    ],
)
def test_cluster_file_that_says_something_else_is_refused(tmp_path, text, wanted):
    path = tmp_path / "cluster.yaml"
    path.write_text(text)
    with pytest.raises(SettingError, match=wanted):
        site_from(path, trace_of(jobs_frame()), Costs())
