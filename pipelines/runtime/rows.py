"""Finished jobs as rows to learn runtimes from."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from features.digests import row_digests
from features.history import RuntimeHistory, runtime_log
from features.history_levels import REQUEST

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
MINUTE_S = 60.0


@dataclass(frozen=True, slots=True)
class FinishedRows:
    """Finished jobs, described by what was known at some moment before they ran.

    Attributes
    ----------
    features : DataFrame of shape (n, n_columns)
        ``features.history.ROW_COLUMNS``.
    runtime_log : float64 array of shape (n,)
        Natural logarithm of the runtime (s).
    finish_time : float64 array of shape (n,), seconds since 1970 UTC
    batch : uint64 array of shape (n,)
        Equal for what one user submitted in one minute with one request.
    """

    features: pd.DataFrame
    runtime_log: Floats
    finish_time: Floats
    batch: NDArray[np.uint64]

    def __len__(self) -> int:
        return len(self.finish_time)

    def where(self, mask: Flags) -> "FinishedRows":
        """Return the rows where a mask of shape (n,) holds."""
        return FinishedRows(
            self.features[mask], self.runtime_log[mask], self.finish_time[mask], self.batch[mask]
        )

    def at(self, positions: NDArray[np.intp]) -> "FinishedRows":
        """Return some of the rows, in the order given."""
        return FinishedRows(
            self.features.iloc[positions],
            self.runtime_log[positions],
            self.finish_time[positions],
            self.batch[positions],
        )

    def thinned(self, most_alike: int, seed: int) -> "FinishedRows":
        """Return at most so many rows of each batch, drawn at random.

        The jobs of a batch repeat one another: a batch of 4,000 is one piece of evidence.
        """
        order = np.random.default_rng(seed).permutation(len(self))
        rank = pd.Series(self.batch[order]).groupby(self.batch[order]).cumcount().to_numpy()
        kept = np.zeros(len(self), dtype=bool)
        kept[order[rank < most_alike]] = True
        return self.where(kept)


@dataclass(frozen=True, slots=True)
class JobRows:
    """The same finished jobs twice, in the same order.

    Attributes
    ----------
    at_start : FinishedRows
        As of each job's start, when those of its batch that started first may have finished:
        learnt from, as the decision falls then.
    at_submission : FinishedRows
        As of each job's submission: calibrated on besides.
    """

    at_start: FinishedRows
    at_submission: FinishedRows

    def __len__(self) -> int:
        return len(self.at_start)

    def where(self, mask: Flags) -> "JobRows":
        """Return the jobs where a mask of shape (n,) holds."""
        return JobRows(self.at_start.where(mask), self.at_submission.where(mask))

    def by_finish_time(self) -> "JobRows":
        """Return the jobs in the order in which they finished."""
        order = np.argsort(self.at_start.finish_time, kind="stable")
        return JobRows(self.at_start.at(order), self.at_submission.at(order))

    def finished_before(self, moment: float) -> "JobRows":
        """Return the jobs that had finished before a moment."""
        return self.where(self.at_start.finish_time < moment)

    def divided(self, share: float) -> "tuple[JobRows, JobRows]":
        """Return the older jobs, and the `share` that finished last."""
        newest = self.newest(share)
        return self.where(~newest), self.where(newest)

    def newest(self, share: float) -> Flags:
        """Return a mask of shape (n,) of the `share` that finished last, of one job at least."""
        order = np.argsort(self.at_start.finish_time, kind="stable")
        newest = np.zeros(len(self), dtype=bool)
        newest[order[len(self) - max(1, round(share * len(self))) :]] = True
        return newest


def job_rows(jobs: pd.DataFrame) -> JobRows:
    """Describe finished jobs as of their start and of their submission.

    Parameters
    ----------
    jobs : DataFrame of shape (n, 14), ``data.schemas.JOBS``

    Returns
    -------
    JobRows
        In the order of `jobs`.
    """
    history = RuntimeHistory()
    history.observe(jobs)
    return JobRows(*(rows_as_of(m, jobs, history) for m in ("start_time", "submit_time")))


def rows_as_of(moment: str, jobs: pd.DataFrame, history: RuntimeHistory) -> FinishedRows:
    """Describe finished jobs as of one moment each.

    Parameters
    ----------
    moment : {"start_time", "submit_time"}
    jobs : DataFrame of shape (n, 14), ``data.schemas.JOBS``
    history : RuntimeHistory
        That has observed them, and any others.
    """
    return FinishedRows(
        history.transform(jobs, jobs[moment].to_numpy(np.float64)),
        runtime_log(jobs),
        jobs["finish_time"].to_numpy(np.float64),
        batches(jobs),
    )


def batches(jobs: pd.DataFrame) -> NDArray[np.uint64]:
    """Return a digest of each job's batch: its user, request and minute of submission."""
    minute = np.floor(jobs["submit_time"].astype("float64") / MINUTE_S)
    columns = jobs.assign(kind=jobs["job_key"].fillna(""), minute=minute)
    return row_digests([columns[name] for name in ("user", *REQUEST, "minute")])
