"""What models learn from before any job of ours has finished: what was imported, or the sample."""

import pandas as pd

from data.domain import ModelStructure
from data.errors import TableError
from data.sample_data import sample_runs, sample_workloads_path
from data.settings import Settings
from pipelines.from_runs import jobs_from_runs, memory_runs_from_runs
from pipelines.input_tables import input_table
from pipelines.workloads import load_workloads


def initial_runs(settings: Settings) -> pd.DataFrame:
    """Return the profiling runs, ``data.schemas.PROFILING_RUNS``: imported, else the sample's."""
    return input_table("profiling_runs", None, settings)[0]


def initial_jobs(settings: Settings) -> pd.DataFrame:
    """Return finished jobs, ``data.schemas.JOBS``: imported, else the exclusive profiling runs."""
    try:
        return input_table("jobs", None, settings)[0]
    except TableError:
        return jobs_from_runs(initial_runs(settings))


def initial_memory_runs(settings: Settings) -> pd.DataFrame:
    """Return training runs, ``data.schemas.MEMORY_RUNS``: imported, else the sample's."""
    try:
        return input_table("memory_runs", None, settings)[0]
    except TableError:
        return memory_runs_from_runs(sample_runs(), sample_structures())


def sample_structures() -> dict[str, ModelStructure]:
    """Return what is known of the sample's programs before they run, by job key."""
    workloads = load_workloads(sample_workloads_path())
    return {work.name: work.structure for work in workloads if work.structure is not None}
