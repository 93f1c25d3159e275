"""Finished jobs as the JOBS table; the pandas side of the job log."""

from collections.abc import Iterable

import pandas as pd

from data.domain import FinishedJob
from data.schemas import JOBS, checked

_SAME = (
    "job_id", "attempt", "user", "queue", "job_key", "gpus", "cpus", "mem_mib", "limit_s",
    "submit_time", "start_time", "finish_time", "runtime_s",
)  # fmt: skip


def jobs_frame(jobs: Iterable[FinishedJob]) -> pd.DataFrame:
    """Return finished jobs as the table that runtime prediction and replay read.

    Parameters
    ----------
    jobs : iterable of FinishedJob
        Each (job id, attempt) once, as the job log gives them.

    Returns
    -------
    DataFrame with the columns of JOBS, one row a job attempt, in the order of `jobs`
        Every outcome is there; what may be learnt from is the reader's choice.

    Raises
    ------
    TableError
        If a job attempt comes twice.
    """
    rows = [
        {name: getattr(job, name) for name in _SAME} | {"outcome": str(job.outcome)} for job in jobs
    ]
    return checked(pd.DataFrame(rows, columns=JOBS.names), JOBS, "job log")
