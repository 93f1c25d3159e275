"""Slurm accounting of the Cedar and Graham clusters.

Popa and Alain, ``slurm-queue-time-pred``, Mila, 2023: finished jobs that were still pending at
a daily noon poll, so jobs that started at once are missing.
"""

from pathlib import Path

import pandas as pd

from data.importers.locating import expected, located
from data.importers.source import SourceTable
from data.schemas import JOBS, checked

FILE = "jobs_core.parquet"
COLUMNS = (
    "cluster",
    "job_unique_id",
    "submit_time",
    "start_time",
    "end_time",
    "partition_id_x",
    "account_id",
    "req_cpus",
    "req_mem_total",
    "req_tres",
    "state",
    "time_limit_sec",
    "run_time_sec",
)
IDS = ("cluster", "job_unique_id", "partition_id_x", "account_id")
ZONES = {"cedar": "America/Vancouver", "graham": "America/Toronto"}
"""Where each cluster stands; the file's times are its wall clock."""

STATES = {
    "COMPLETED": "ok",
    "FAILED": "failed",
    "TIMEOUT": "timeout",
    "OUT_OF_MEMORY": "oom",
    "CANCELLED": "cancelled",
    "NODE_FAIL": "node_fail",
    "PREEMPTED": "preempted",
}


def recognises(path: Path) -> bool:
    """Whether `path` is such a file, whatever its name, or a directory that holds one."""
    return located(path, (FILE,), COLUMNS) is not None


def read(path: Path) -> dict[str, pd.DataFrame]:
    """Return the jobs, one row each.

    Parameters
    ----------
    path : Path
        The parquet or csv file, whatever its name, or its directory.

    Returns
    -------
    dict with ``jobs``
        Users and queues are ``<cluster>/<account>`` and ``<cluster>/<partition>``: whether an
        integer means the same on both clusters is not known. GPUs are those requested in
        ``gres/gpu``, zero where there are none. A memory request of 0 (in Slurm: the whole
        node) is missing.

    Raises
    ------
    TableError
        A column is missing, a value is missing, out of range or in another unit, a job occurs
        twice, or a cluster stands in no known zone.

    Notes
    -----
    Submission and start are the cluster's wall clock, converted to UTC by the zone in which it
    stands; in the hour that is repeated when summer time ends, the second one is meant. The
    finish is the start plus the measured run time, so durations are exact.
    """
    source = SourceTable.read(expected(path, (FILE,), COLUMNS), COLUMNS, IDS)
    source.unique(["cluster", "job_unique_id"])
    cluster = source.choice("cluster", {name: name for name in ZONES})
    runtime = _runtimes(source)
    start = _utc(source, "start_time", cluster)
    memory = source.number("req_mem_total", 0, missing=(0,))
    source.typical(memory, "req_mem_total", 100, 1e7, "MiB")
    jobs = pd.DataFrame(
        {
            "job_id": cluster + "/" + source.text("job_unique_id"),
            "attempt": 0,
            "user": cluster + "/" + source.text("account_id"),
            "queue": cluster + "/" + source.text("partition_id_x"),
            "gpus": _gpus(source),
            "cpus": source.whole("req_cpus", 0),
            "mem_mib": memory,
            "limit_s": source.positive("time_limit_sec"),
            "submit_time": _utc(source, "submit_time", cluster),
            "start_time": start,
            "finish_time": start + runtime,
            "runtime_s": runtime,
            "outcome": source.choice("state", STATES),
        }
    )
    early = jobs["start_time"] < jobs["submit_time"]
    source.refuse(early, "start_time", "a start not before the submission")
    return {"jobs": checked(jobs, JOBS, source.name)}


def _runtimes(source: SourceTable) -> pd.Series:
    runtime = source.number("run_time_sec", 0)
    clock = source.moment("end_time") - source.moment("start_time")
    # The wall clock is an hour off where summer time began or ended during the run.
    off = ((clock - runtime).abs() > 1) & ((clock - runtime).abs() - 3600).abs().gt(1)
    source.refuse(off, "run_time_sec", "end_time - start_time in seconds")
    return runtime


def _utc(source: SourceTable, column: str, cluster: pd.Series) -> pd.Series:
    moments = pd.Series(float("nan"), index=cluster.index)
    for name, zone in ZONES.items():
        here = cluster == name
        if here.any():
            moments = moments.mask(here, source.moment(column, zone=zone))
    return moments


def _gpus(source: SourceTable) -> pd.Series:
    text = source.text("req_tres")
    gpus = text.str.extract(r"(?:^|,)gres/gpu(?::[^=,]*)?=([^,]*)", expand=False)
    numbers = pd.to_numeric(gpus, errors="coerce")
    source.refuse(gpus.notna() & (numbers.isna() | (numbers < 0)), "req_tres", "gres/gpu=N")
    return numbers.fillna(0)
