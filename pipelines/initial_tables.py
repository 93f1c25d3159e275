"""What models learn from before any job of ours has finished: what was imported, or the sample."""

from pathlib import Path

import pandas as pd

from data.domain import ModelStructure
from data.errors import TableError
from data.sample_data import sample_runs, sample_workloads_path
from data.settings import Settings
from pipelines.input_tables import input_table
from pipelines.labelling.from_runs import jobs_from_runs, memory_runs_from_runs
from pipelines.profiling.workloads import load_workloads


def initial_runs(settings: Settings, path: Path | None = None) -> pd.DataFrame:
    """Return the profiling runs, ``data.schemas.PROFILING_RUNS``.

    Parameters
    ----------
    settings : Settings
    path : Path, optional
        What to read; by default everything imported, else the embedded sample.
    """
    return input_table("profiling_runs", path, settings)[0]


def initial_jobs(settings: Settings, path: Path | None = None) -> pd.DataFrame:
    """Return finished jobs, ``data.schemas.JOBS``; without any, the exclusive profiling runs."""
    try:
        return input_table("jobs", path, settings)[0]
    except TableError:
        return jobs_from_runs(initial_runs(settings, path))


def initial_memory_runs(settings: Settings, path: Path | None = None) -> pd.DataFrame:
    """Return training runs, ``data.schemas.MEMORY_RUNS``; by default those of the sample."""
    if path is not None:
        return input_table("memory_runs", path, settings)[0]
    try:
        return input_table("memory_runs", None, settings)[0]
    except TableError:
        return memory_runs_from_runs(sample_runs(), sample_structures())


def sample_structures() -> dict[str, ModelStructure]:
    """Return what is known of the sample's programs before they run, by job key."""
    workloads = load_workloads(sample_workloads_path())
    return {work.name: work.structure for work in workloads if work.structure is not None}
