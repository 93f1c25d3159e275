"""A session that chooses its pairs, with real, very short programs."""

import sys
from dataclasses import replace

import pytest

from data.errors import ProfilerError
from pipelines.profiling.next_session import profile_next
from pipelines.profiling.plan import Plan
from pipelines.profiling.session import Session
from pipelines.profiling.workloads import Workload
from scheduler_client.local.devices import discover

SLOT = discover(kind="cpu")[-1]


def sleeper(name, seconds):
    source = f"import time; time.sleep({seconds})"
    return Workload(name, name, (sys.executable, "-I", "-S", "-c", source))


@pytest.fixture
def session(tmp_path):
    jobs = (sleeper("short", 0.05), sleeper("middle", 0.07), sleeper("long", 0.1))
    return Session(jobs, SLOT, Plan(), tmp_path / "out")


def pairs_in(runs):
    together = runs[runs["neighbour_key"].notna()]
    keys = zip(together["job_key"], together["neighbour_key"], strict=True)
    return {frozenset(pair) for pair in keys}


def test_each_call_measures_as_many_new_pairs(session, monkeypatch):
    # On a busy machine runs this short would seldom count as exclusive.
    monkeypatch.setattr("pipelines.profiling.runs.EXCLUSIVE_ENOUGH", 1.0)
    first = pairs_in(profile_next(session, 2))
    second = pairs_in(profile_next(session, 1))
    assert (len(first), len(second)) == (2, 3)
    assert first < second


def test_no_pair_asked_for_is_refused(session):
    with pytest.raises(ProfilerError, match="at least 1, got 0"):
        profile_next(session, 0)


def test_commands_that_all_fail_alone_leave_nothing_to_choose(session):
    failing = Workload("bad", "bad", (sys.executable, "-c", "raise SystemExit(1)"))
    with pytest.raises(ProfilerError, match="no command that ran well"):
        profile_next(replace(session, workloads=(failing,)), 1)
