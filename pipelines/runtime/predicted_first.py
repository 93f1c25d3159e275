"""Shortest first by what is expected now: told at submission, moved by what was seen since."""

from collections import defaultdict, deque
from heapq import heappop, heappush

import numpy as np
from numpy.typing import NDArray

from pipelines.runtime.batch_keys import BatchKeys, Digests
from scheduler_client.replay.simulation import Simulation

Floats = NDArray[np.float64]
Ranked = tuple[float, int, int]


class PredictedFirst:
    """One pool, nothing shared; of all pending jobs that fit, the one expected to be shortest.

    What a user submits at once waits in one line, in order of arrival: a scheduler asks again
    while jobs wait, and its answer moves as like jobs run and finish (see `BatchKeys`).

    Parameters
    ----------
    told_s : float64 array of shape (n,), > 0
        Told at each job's submission, in the order of the trace.
    like, batch : uint64 array of shape (n,)
        Equal for jobs of one user and request, and for those that were submitted as one.
    """

    name = "predicted_first"

    def __init__(self, told_s: Floats, like: Digests, batch: Digests) -> None:
        self._keys = BatchKeys(told_s, like, batch)
        self._like: list[int] = like.tolist()
        self._batch: list[int] = batch.tolist()
        self._pending: defaultdict[int, deque[int]] = defaultdict(deque)
        self._waiting: defaultdict[int, dict[int, None]] = defaultdict(dict)
        self._version: defaultdict[int, int] = defaultdict(int)
        self._heaps: defaultdict[int, list[Ranked]] = defaultdict(list)

    def begin(self, simulation: Simulation) -> None:
        """Get ready for a replay."""
        self._simulation = simulation
        self._runtime_s: list[float] = simulation.trace.runtime_s.tolist()

    def submitted(self, job: int) -> None:
        """Take in a job that has arrived."""
        batch = self._batch[job]
        self._pending[batch].append(job)
        self._waiting[self._like[job]][batch] = None
        self._rank(batch)

    def finished(self, job: int) -> None:
        """Learn how long a job took, and what that says of those like it."""
        self._keys.finished(job, self._runtime_s[job])
        for batch in self._waiting[self._like[job]]:
            self._rank(batch)

    def schedule(self) -> None:
        """Start whatever fits, shortest first; a gang that does not fit is passed."""
        cards = self._simulation.cards
        while cards.empty and (batch := self._next(len(cards.empty))) is not None:
            job = self._pending[batch].popleft()
            self._simulation.start(job, cards.take_empty(self._simulation.gpus[job]), "alone")
            self._keys.started(job, self._simulation.now)
            if self._pending[batch]:
                self._rank(batch)
            else:
                del self._waiting[self._like[job]][batch]

    def _key(self, batch: int) -> float:
        pending = self._pending[batch]
        return self._keys.key(pending[0], len(pending), self._simulation.now)

    def _rank(self, batch: int) -> None:
        self._version[batch] += 1
        gpus = self._simulation.gpus[self._pending[batch][0]]
        heappush(self._heaps[gpus], (self._key(batch), batch, self._version[batch]))

    def _next(self, free: int) -> int | None:
        fitting = [
            heap[0] for gpus, heap in self._heaps.items() if gpus <= free and self._settle(heap)
        ]
        return min(fitting)[1] if fitting else None

    def _settle(self, heap: list[Ranked]) -> bool:
        """Bring a heap's least entry up to date, and return whether there is one.

        Between two rankings keys only grow, as running jobs outlast what was expected.
        """
        while heap:
            told, batch, version = heap[0]
            is_current = bool(self._pending[batch]) and self._version[batch] == version
            if is_current and self._key(batch) <= told:
                return True
            heappop(heap)
            if is_current:
                self._rank(batch)
        return False
