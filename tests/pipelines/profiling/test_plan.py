"""Which measurements a session makes."""

import pytest

from data.errors import ProfilerError
from pipelines.profiling.plan import Measurement, Plan, measurements
from pipelines.profiling.workloads import Workload

JOBS = [Workload(name, name, ("true",)) for name in "abc"]


def keys(plan):
    return [one.key for one in measurements(JOBS, plan)]


def test_every_job_is_alone_and_every_pair_together():
    found = keys(Plan(repeats=4, pair_repeats=2))
    assert len(found) == len(set(found)) == 3 * 4 + 6 * 2
    assert "a+a#0" in found


def test_the_first_exclusive_run_of_each_job_comes_first():
    assert set(keys(Plan())[:3]) == {"a#0", "b#0", "c#0"}


def test_the_order_is_the_seeds():
    assert keys(Plan(seed=1)) == keys(Plan(seed=1))
    assert keys(Plan(seed=1)) != keys(Plan(seed=2))


def test_a_larger_plan_holds_the_smaller_one():
    assert set(keys(Plan(pairs=2))) < set(keys(Plan(pairs=4))) < set(keys(Plan(pair_repeats=2)))


def test_unpaired_jobs_run_alone_only():
    jobs = [*JOBS, Workload("d", "d", ("true",), paired=False)]
    plan = measurements(jobs, Plan())
    assert sum("d" in one.job_keys for one in plan) == 3
    assert Measurement("d", None, 0) in plan


def test_no_pairs_can_be_asked_for():
    assert all(one.neighbour_key is None for one in measurements(JOBS, Plan(pairs=0)))


@pytest.mark.parametrize(
    ("plan", "match"),
    [
        (Plan(repeats=2), "repeats must be at least 3, got 2"),
        (Plan(pair_repeats=0), "pair_repeats must be at least 1"),
        (Plan(pairs=-1), "at least 0, got -1"),
    ],
)
def test_a_plan_out_of_range_is_refused(plan, match):
    with pytest.raises(ProfilerError, match=match):
        measurements(JOBS, plan)
