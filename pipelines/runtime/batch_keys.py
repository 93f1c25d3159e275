"""How long the next job of each batch is expected to take, by all that is known by then."""

import math
from collections import deque

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Digests = NDArray[np.uint64]

NEWEST = 3
"""Finished jobs that are looked at; on DRAC before 24 May 2021, 2 and 5 gain less."""

TOLD_JOBS = 1.0
"""Finished like jobs that what was told counts for: variance within over that between."""

LIKE_JOBS = 0.25
"""Finished jobs of the batch itself that all of this counts for."""

OUTLASTED = 1.0
"""What has outlasted its expectation is expected to take e times as long as it has taken."""

CURIOSITY = 2.0
"""How much shorter (log) the first job of a large batch seems: it tells what the others take.
What a user's like jobs take strays by as much."""


class BatchKeys:
    """The expected log runtime of each batch's next job, as its like jobs start and finish.

    What was told at a job's submission is drawn to what the newest finished jobs of the same user
    and request took, and that to what those of its own batch took; the batch's oldest running job
    counts as one of them as soon as it outlasts the expectation. A batch of which no job has
    started seems shorter by `CURIOSITY` x (1 - 1 / √n), n its pending jobs.

    Parameters
    ----------
    told_s : float64 array of shape (n,), > 0
        Told at each job's submission.
    like : uint64 array of shape (n,)
        Equal for jobs of one user and request.
    batch : uint64 array of shape (n,)
        Equal for jobs that are submitted as one; all of a batch are alike.

    Examples
    --------
    Two batches of one user, told to take a second each; a job of the first took e^4.

    >>> alike, batch = np.array([7, 7, 7], np.uint64), np.array([1, 1, 2], np.uint64)
    >>> keys = BatchKeys(np.ones(3), alike, batch)
    >>> keys.started(0, now=0.0)
    >>> keys.finished(0, math.exp(4.0))
    >>> keys.key(1, pending=1, now=60.0), keys.key(2, pending=1, now=60.0)
    (3.6, 2.0)
    """

    def __init__(self, told_s: Floats, like: Digests, batch: Digests) -> None:
        likes, self._like = np.unique(like, return_inverse=True)
        batches, self.batch = np.unique(batch, return_inverse=True)
        self._told_log: list[float] = np.log(told_s).tolist()
        self._of_like: list[deque[float]] = [deque(maxlen=NEWEST) for _ in likes]
        self._of_batch: list[deque[float]] = [deque(maxlen=NEWEST) for _ in batches]
        self._running: list[dict[int, float]] = [{} for _ in batches]

    def started(self, job: int, now: float) -> None:
        """Take note that a job runs from now on (s)."""
        self._running[self.batch[job]][job] = now

    def finished(self, job: int, runtime_s: float) -> None:
        """Learn how long a job took."""
        del self._running[self.batch[job]][job]
        self._of_like[self._like[job]].append(math.log(runtime_s))
        self._of_batch[self.batch[job]].append(math.log(runtime_s))

    def key(self, job: int, pending: int, now: float) -> float:
        """Return the log runtime to rank a pending job by.

        Parameters
        ----------
        job : int
        pending : int
            Jobs of its batch that are pending, this one among them.
        now : float
            The moment (s).
        """
        batch = self.batch[job]
        seen, running = self._of_batch[batch], self._running[batch]
        alike = _drawn(self._told_log[job], TOLD_JOBS, self._of_like[self._like[job]])
        if not seen and not running:
            return alike - CURIOSITY * (1 - 1 / math.sqrt(pending))
        expected = _drawn(alike, LIKE_JOBS, seen)
        for started in list(running.values())[:1]:
            if now - started > math.exp(expected):
                outlasting = math.log(now - started) + OUTLASTED
                return _drawn(alike, LIKE_JOBS, [*seen, outlasting])
        return expected


def _drawn(prior: float, weight: float, seen: deque[float] | list[float]) -> float:
    return (weight * prior + sum(seen)) / (weight + len(seen))
