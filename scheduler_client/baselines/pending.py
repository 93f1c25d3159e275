"""Pending jobs in heaps of like ones, so that backfill needs no search."""

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import Generic, TypeVar

Key = TypeVar("Key", float, "tuple[float, ...]")
Kind = TypeVar("Kind", bound="tuple[int, ...]")


class BySize(Generic[Key]):
    """Pending jobs; hands out the one with the lowest key among those that fit.

    Examples
    --------
    >>> pending = BySize()
    >>> pending.push(1.0, job=7, gpus=4), pending.push(2.0, job=8, gpus=1)
    (None, None)
    >>> pending.pop(free=2), pending.pop(free=2), pending.pop(free=4)
    (8, None, 7)
    """

    def __init__(self) -> None:
        self._heaps: dict[int, list[tuple[Key, int]]] = {}

    def push(self, key: Key, job: int, gpus: int) -> None:
        """Add a job."""
        heappush(self._heaps.setdefault(gpus, []), (key, job))

    def pop(self, free: int) -> int | None:
        """Remove and return the first job of those that ask for at most `free` cards."""
        fitting = [(heap[0], gpus) for gpus, heap in self._heaps.items() if gpus <= free]
        if not fitting:
            return None
        (_, job), gpus = min(fitting)
        heap = self._heaps[gpus]
        heappop(heap)
        if not heap:
            del self._heaps[gpus]
        return job


class ByKind(Generic[Kind]):
    """Pending jobs in kinds that a placement cannot tell apart: one refusal speaks for all."""

    def __init__(self) -> None:
        self._heaps: dict[Kind, list[tuple[float, int]]] = {}
        self._fresh: set[Kind] = set()
        self._freed = False
        self.jobs = 0
        """How many are pending."""

    def push(self, kind: Kind, key: float, job: int) -> None:
        """Add a job; kinds must be sortable, for ties."""
        heappush(self._heaps.setdefault(kind, []), (key, job))
        self._fresh.add(kind)
        self.jobs += 1

    def freed(self) -> None:
        """Take note that cards were freed: every kind may be offered again."""
        self._freed = True

    def offer(self, starts: Callable[[Kind, int], bool]) -> None:
        """Offer jobs in order of their keys; of a kind that is refused, no other one.

        Kinds that were refused before are left out until cards are freed.

        Parameters
        ----------
        starts : callable
            Given kind and job, starts the job and returns True, or refuses it.
        """
        kinds = self._heaps if self._freed else sorted(self._fresh)
        order = [(self._heaps[kind][0], kind) for kind in kinds]
        self._fresh.clear()
        self._freed = False
        heapify(order)
        while order:
            (_, job), kind = heappop(order)
            if not starts(kind, job):
                continue
            heap = self._heaps[kind]
            heappop(heap)
            self.jobs -= 1
            if heap:
                heappush(order, (heap[0], kind))
            else:
                del self._heaps[kind]
