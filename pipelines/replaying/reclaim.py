"""How long queues below their nominal quota had to wait for what is theirs; from an event log."""

from collections import Counter

import numpy as np
import pandas as pd


def reclaim_waits_s(
    events: pd.DataFrame, queues: tuple[str, ...], quotas: tuple[int, ...]
) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
    """Return every wait of a queue for its nominal quota (s), those of 0 left out.

    A queue waits from the moment in which its smallest pending gang fits within what is left of
    its nominal quota, until one starts, or none fits any more.

    Parameters
    ----------
    events : DataFrame
        As ``colocast replay --events`` writes it.
    queues : tuple of str
    quotas : tuple of int
        Nominal, by queue.

    Returns
    -------
    array of shape (n,), float64
        In order of their ends.
    """
    rows = events[events["event"] != "change"].drop_duplicates(["job_id", "attempt", "event"])
    books = {name: _Queue(quota) for name, quota in zip(queues, quotas, strict=True)}
    columns = (rows[name].tolist() for name in ("time_s", "event", "queue", "gpus"))
    for time_s, event, queue, gpus in zip(*columns, strict=True):
        books[queue].enter(time_s, event, gpus)
    return np.array([wait for book in books.values() for wait in book.waits_s], np.float64)


class _Queue:
    """A queue's pending gangs, by size, and the GPUs that it holds."""

    def __init__(self, quota: int) -> None:
        self._left, self._pending = quota, Counter[int]()
        self._since_s: float | None = None
        self.waits_s: list[float] = []

    def enter(self, time_s: float, event: str, gpus: int) -> None:
        """Take in one event of one job."""
        if event in {"submit", "preempt"}:
            self._pending[gpus] += 1
        elif event == "start":
            self._pending[gpus] -= 1
            self._end(time_s)
        if event in {"finish", "preempt"}:
            self._left += gpus
        elif event == "start":
            self._left -= gpus
        waits = any(count and size <= self._left for size, count in self._pending.items())
        if waits and self._since_s is None:
            self._since_s = time_s
        elif not waits:
            self._end(time_s)

    def _end(self, time_s: float) -> None:
        if self._since_s is not None and time_s > self._since_s:
            self.waits_s.append(time_s - self._since_s)
        self._since_s = None
