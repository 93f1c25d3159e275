"""What profiling runs say beside slowdown: how long jobs take, and how much memory they need."""

from collections.abc import Mapping
from dataclasses import asdict, fields

import pandas as pd

from data.domain import PROFILE_COLUMNS, ModelStructure, Outcome
from data.schemas import JOBS, MEMORY_RUNS, checked

PROFILER = "profiler"


def jobs_from_runs(runs: pd.DataFrame) -> pd.DataFrame:
    """Return each timed exclusive run as a finished job of the user ``profiler``.

    Parameters
    ----------
    runs : DataFrame, ``data.schemas.PROFILING_RUNS``

    Returns
    -------
    DataFrame, ``data.schemas.JOBS``
        One row an exclusive run whose start and finish are known; one GPU, no queueing delay.

    Examples
    --------
    >>> runs = pd.DataFrame({"run_id": ["a"], "job_key": ["sort"], "neighbour_key": [None],
    ...     "start_time": [5.0], "finish_time": [7.0], "outcome": ["ok"]})
    >>> jobs_from_runs(runs)[["job_id", "user", "job_key", "runtime_s"]].to_dict("records")
    [{'job_id': 'a', 'user': 'profiler', 'job_key': 'sort', 'runtime_s': 2.0}]
    """
    timed = runs["start_time"].notna() & runs["finish_time"].notna()
    alone = runs[timed & runs["neighbour_key"].isna()]
    jobs = alone[["job_key", "start_time", "finish_time", "outcome"]].assign(
        job_id=alone["run_id"],
        attempt=0,
        user=PROFILER,
        queue=PROFILER,
        gpus=1,
        submit_time=alone["start_time"],
        runtime_s=alone["finish_time"] - alone["start_time"],
    )
    return checked(jobs, JOBS, "profiling runs")


def memory_runs_from_runs(
    runs: pd.DataFrame, structures: Mapping[str, ModelStructure]
) -> pd.DataFrame:
    """Return each exclusive run of a job whose structure is known, with its memory peak.

    Parameters
    ----------
    runs : DataFrame, ``data.schemas.PROFILING_RUNS``
    structures : mapping of job key to ModelStructure

    Returns
    -------
    DataFrame, ``data.schemas.MEMORY_RUNS``
        One row an exclusive run; the job key is its configuration.

    Examples
    --------
    >>> runs = pd.DataFrame({"run_id": ["a"], "job_key": ["sort"], "neighbour_key": [None],
    ...     "gpu_model": ["cpu"], "gpu_mem_peak_mib": [40.0], "outcome": ["ok"]})
    >>> rows = memory_runs_from_runs(runs, {"sort": ModelStructure("sort", 64)})
    >>> rows[["configuration", "batch_size", "gpu_mem_peak_mib"]].to_dict("records")
    [{'configuration': 'sort', 'batch_size': 64.0, 'gpu_mem_peak_mib': 40.0}]
    """
    described = runs[runs["neighbour_key"].isna() & runs["job_key"].isin(list(structures))]
    structure = pd.DataFrame(
        [asdict(structures[key]) for key in described["job_key"]],
        index=described.index,
        columns=[field.name for field in fields(ModelStructure) if field.name != "gpu_model"],
    )
    measured = [name for name in PROFILE_COLUMNS if name in described.columns]
    rows = described[["run_id", "gpu_model", "outcome", *measured]].assign(
        dataset=PROFILER, configuration=described["job_key"]
    )
    return checked(pd.concat([rows, structure], axis="columns"), MEMORY_RUNS, "profiling runs")


def usable(memory_runs: pd.DataFrame) -> pd.DataFrame:
    """Return the rows that ended well and whose memory peak was measured."""
    ok = memory_runs["outcome"] == Outcome.OK
    return memory_runs[ok & memory_runs["gpu_mem_peak_mib"].notna()].reset_index(drop=True)
