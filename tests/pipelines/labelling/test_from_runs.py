"""Profiling runs as jobs and as memory runs."""

import pandas as pd

from data.domain import ModelStructure
from pipelines.labelling.from_runs import jobs_from_runs, memory_runs_from_runs, usable


def runs(**columns) -> pd.DataFrame:
    base = {
        "run_id": ["a", "b", "c"],
        "job_key": ["sort", "sort", "sort"],
        "neighbour_key": [None, "sort", None],
        "gpu_model": ["cpu"] * 3,
        "start_time": [1.0, 2.0, None],
        "finish_time": [3.0, 5.0, None],
        "gpu_mem_peak_mib": [10.0, 11.0, None],
        "outcome": ["ok", "ok", "failed"],
    }
    return pd.DataFrame(base | columns)


def test_only_timed_exclusive_runs_become_jobs():
    assert jobs_from_runs(runs())["job_id"].tolist() == ["a"]


def test_failed_run_stays_a_failed_job():
    jobs = jobs_from_runs(runs(start_time=[1.0, 2.0, 3.0], finish_time=[3.0, 5.0, 3.5]))
    assert jobs["outcome"].tolist() == ["ok", "failed"]


def test_runs_of_jobs_without_structure_are_no_memory_runs():
    assert memory_runs_from_runs(runs(), {}).empty


def test_runs_without_a_measured_peak_are_not_usable():
    rows = memory_runs_from_runs(runs(), {"sort": ModelStructure("sort", 8)})
    assert rows["run_id"].tolist() == ["a", "c"]
    assert usable(rows)["run_id"].tolist() == ["a"]
