"""The jobs of a replay, as columns in order of arrival."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from data.errors import TableError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Trace:
    """What arrives when; one row a job, ordered by arrival.

    Attributes
    ----------
    job_ids : tuple of str, length n
    arrival_s : array of shape (n,), float64
        Seconds since the first arrival, ascending.
    runtime_s : array of shape (n,), float64
        Of the job alone on its cards (s, > 0): the work that is owed to it.
    gpus : array of shape (n,), int64
        Cards of its gang (>= 1).
    queue : array of shape (n,), int64
        Index into `queues`.
    workload : array of shape (n,), int64
        Which measured workload it behaves like; an index into the rows of the ground truth.
    queues : tuple of str
    users : tuple of str, length n or 0
        Who submitted each job, where that is known. No policy reads it.

    Raises
    ------
    TableError
        Columns of different lengths, no job, arrivals out of order, or a value out of range.

    Examples
    --------
    >>> one = np.array([1])
    >>> Trace(("7",), one * 0.0, one * 60.0, one, one * 0, one * 0, ("research",)).gpu_time_s
    60.0
    """

    job_ids: tuple[str, ...]
    arrival_s: Floats
    runtime_s: Floats
    gpus: Ints
    queue: Ints
    workload: Ints
    queues: tuple[str, ...]
    users: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        columns = (self.arrival_s, self.runtime_s, self.gpus, self.queue, self.workload)
        lengths = {len(self.job_ids), *(len(column) for column in columns)}
        if len(lengths) != 1 or lengths == {0}:
            raise TableError("trace", f"columns of lengths {lengths}", "one length, at least 1")
        if len(self.users) not in {0, len(self.job_ids)}:
            raise TableError("trace", f"{len(self.users)} users", f"{len(self.job_ids)} or none")
        rules = (
            ("arrival_s", bool((np.diff(self.arrival_s) >= 0).all()), "ascending seconds"),
            ("runtime_s", bool((self.runtime_s > 0).all()), "seconds above 0"),
            ("gpus", bool((self.gpus >= 1).all()), "at least 1"),
            ("queue", _within(self.queue, len(self.queues)), "an index into queues"),
            ("workload", bool((self.workload >= 0).all()), "an index of a workload"),
        )
        for name, holds, wanted in rules:
            if not holds:
                raise TableError("trace", f"{name} out of range", wanted)

    def __len__(self) -> int:
        return len(self.job_ids)

    @property
    def gpu_time_s(self) -> float:
        """GPU time of all jobs together (GPU seconds)."""
        return float((self.runtime_s * self.gpus).sum())

    @property
    def window_s(self) -> float:
        """First to last arrival (s)."""
        return float(self.arrival_s[-1] - self.arrival_s[0])


def _within(index: Ints, length: int) -> bool:
    return bool(((index >= 0) & (index < length)).all())
