"""What is made of the finished jobs of a log: each once, however often the log is looked at."""

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

import pandas as pd

from data.domain import FinishedJob

MOST = 30_000  # jobs of which anything is kept; a longer log is looked at rarely, and begun anew

Made = TypeVar("Made")
Maker = Callable[[FinishedJob], Made]


class Once(Generic[Made]):
    """Goes through finished jobs in the order of their log, and on from there the next time.

    Parameters
    ----------
    begin : callable
        Returns what is given the jobs one after the other; it may remember the earlier ones.
        What it makes of a job may depend on its run, but not on its signals: telemetry may bring
        these later.

    Examples
    --------
    >>> from data.domain import Outcome
    >>> jobs = [FinishedJob(n, 1, "u", "q", "ncf", 1, 0, 0, 9, Outcome.OK) for n in "abc"]
    >>> asked = []
    >>> once = Once(lambda: lambda job: asked.append(job.job_id) or job.job_id.upper())
    >>> once.of(jobs[:2]), once.of(jobs), asked
    (['A', 'B'], ['A', 'B', 'C'], ['a', 'b', 'c'])
    """

    def __init__(self, begin: Callable[[], Maker[Made]]) -> None:
        self._begin = begin
        self._make = begin()
        self._jobs: list[FinishedJob] = []
        self._made: list[Made] = []

    def of(self, jobs: Sequence[FinishedJob]) -> list[Made]:
        """Return what is made of each job; of other jobs than before, all is made anew."""
        if len(jobs) > MOST:
            return list(map(self._begin(), jobs))
        same = _alike(self._jobs, jobs, _is_same_run)
        if not self._jobs or same < min(len(self._jobs), len(jobs)):
            self._make, self._jobs, self._made = self._begin(), [], []
        known, self._jobs = self._jobs, []  # what breaks off midway is begun anew
        fresh = jobs[len(known) :]
        self._made += map(self._make, fresh)
        self._jobs = [*known, *fresh]
        return self._made[: len(jobs)]


class RowsOnce:
    """A table with a row for each finished job, of which only new rows are made."""

    def __init__(self) -> None:
        self._jobs: list[FinishedJob] = []
        self._rows = pd.DataFrame()

    def of(self, jobs: Sequence[FinishedJob], make: Callable[[int], pd.DataFrame]) -> pd.DataFrame:
        """Return the rows of all jobs.

        Parameters
        ----------
        jobs : sequence of FinishedJob
            In the order of their log. From the first on that is not what it was, such as for
            signals that telemetry brought since, all are made anew.
        make : callable
            Returns the rows from a position on. A row depends on its job and those before it.
        """
        same = _alike(self._jobs, jobs, lambda old, new: old is new or old == new)
        if same == len(jobs) > 0:
            return self._rows.iloc[:same]
        rows = make(same)
        if same:
            rows = pd.concat([self._rows.iloc[:same], rows], ignore_index=True)
        if len(jobs) <= MOST:
            self._jobs, self._rows = list(jobs), rows
        return rows


def _alike(
    known: Sequence[FinishedJob],
    jobs: Sequence[FinishedJob],
    is_same: Callable[[FinishedJob, FinishedJob], bool],
) -> int:
    """Return how many of the first jobs are the same."""
    pairs = enumerate(zip(known, jobs, strict=False))
    shorter = min(len(known), len(jobs))
    return next((at for at, (old, new) in pairs if not is_same(old, new)), shorter)


def _is_same_run(old: FinishedJob, new: FinishedJob) -> bool:
    if old is new:
        return True
    facts = ((job.job_id, job.attempt, job.finish_time, job.segments) for job in (old, new))
    return next(facts) == next(facts)
