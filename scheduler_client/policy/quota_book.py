"""All queues' holdings as arrays: what each may take beside anybody's job, at once."""

from collections.abc import Mapping, Sequence
from copy import copy

import numpy as np
import numpy.typing as npt

from scheduler_client.policy.quota import SLACK_GPUS, Changes, most_gpus, unlent_gpus
from scheduler_client.policy.view import Queue

Flags = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]

NOBODY = -1
"""Stands for an owner that is in no queue."""


class QuotaBook:
    """What every queue holds, moving on with each admission; the rules are `QuotaCheck`'s.

    Parameters
    ----------
    queues : sequence of Queue
    held : mapping of str to float
        GPUs held now, by queue.

    Attributes
    ----------
    index : dict of str to int
        Queue name to its place in the arrays.
    version : int
        Grows with every change.
    """

    def __init__(self, queues: Sequence[Queue], held: Mapping[str, float]) -> None:
        self.index = {queue.name: place for place, queue in enumerate(queues)}
        self.version = 0
        cohorts: dict[str, int] = {}
        for queue in queues:  # a queue without a cohort is one of its own
            cohorts.setdefault(_cohort(queue), len(cohorts))
        self._cohort = np.array([cohorts[_cohort(queue)] for queue in queues], dtype=np.int64)
        self._most = np.array([most_gpus(queue) for queue in queues], dtype=np.float64)
        self._unlent = np.array([unlent_gpus(queue) for queue in queues], dtype=np.float64)
        self._held = np.array([held.get(queue.name, 0.0) for queue in queues], dtype=np.float64)
        nominal = np.array([queue.nominal_quota_gpus for queue in queues], dtype=np.float64)
        sizes = len(cohorts)
        self._lendable = np.bincount(self._cohort, nominal - self._unlent, minlength=sizes)
        self._taken = np.bincount(self._cohort, self._taken_by_each(), minlength=sizes)

    def hold(self, name: str, gpus: float) -> None:
        """Take in that a queue now holds `gpus`."""
        place = self.index.get(name)
        if place is not None and self._held[place] != gpus:
            before = max(0.0, float(self._held[place] - self._unlent[place]))
            after = max(0.0, gpus - float(self._unlent[place]))
            self._held[place] = gpus
            self._taken[self._cohort[place]] += after - before
            self.version += 1

    def held(self, name: str) -> float:
        """Return what a queue holds now (GPUs)."""
        return float(self._held[self.index[name]])

    def copy(self) -> "QuotaBook":
        """Return a book that moves on by itself."""
        other = copy(self)
        other._held, other._taken = self._held.copy(), self._taken.copy()
        return other

    def allows(self, name: str, changes: Changes) -> bool:
        """Return whether a queue may cause these changes."""
        place = self.index[name]
        held = float(self._held[place])
        if held + changes.get(name, 0.0) > float(self._most[place]) + SLACK_GPUS:
            return False
        cohort = self._cohort[place]
        more = 0.0
        for other, change in changes.items():
            at = self.index.get(other)
            if at is not None and self._cohort[at] == cohort:
                more += self._more(at, change)
        return self._fits(int(cohort), more)

    def could_ever_hold(self, name: str, gpus: float) -> bool:
        """Return whether a queue could hold so many GPUs if nobody else held any."""
        place = self.index[name]
        taken = max(0.0, gpus - float(self._unlent[place]))
        lendable = float(self._lendable[self._cohort[place]])
        return gpus <= float(self._most[place]) + SLACK_GPUS and taken <= lendable + SLACK_GPUS

    def allowed_beside(self, name: str) -> Flags:
        """Return whether a job of a queue may join a card with one resident, by its owner.

        Returns
        -------
        array of shape (n_queues + 1,), bool
            In the order of `index`; the last one for a resident of no queue.
        """
        place = self.index[name]
        cohort = int(self._cohort[place])
        own = self._more(place, 0.5)
        less = np.where(
            self._cohort == cohort, self._taken_by_each(-0.5) - self._taken_by_each(), 0
        )
        less[place] = -own  # a card of one's own queue is divided anew
        more = np.append(own + less, own)
        bound = max(float(self._lendable[cohort]), float(self._taken[cohort]))
        allowed = float(self._taken[cohort]) + more <= bound + SLACK_GPUS
        most, held = float(self._most[place]) + SLACK_GPUS, float(self._held[place])
        if held + 0.5 > most:
            allowed[np.arange(len(allowed)) != place] = False
        allowed[place] &= held <= most
        return np.asarray(allowed, dtype=np.bool_)

    def _fits(self, cohort: int, more: float) -> bool:
        taken = float(self._taken[cohort])
        return taken + more <= max(float(self._lendable[cohort]), taken) + SLACK_GPUS

    def _more(self, place: int, change: float) -> float:
        free = float(self._held[place] - self._unlent[place])
        return max(0.0, free + change) - max(0.0, free)

    def _taken_by_each(self, change: float = 0.0) -> Floats:
        return np.maximum(0.0, self._held + change - self._unlent)


def _cohort(queue: Queue) -> str:
    return f"queue {queue.name}" if queue.cohort is None else f"cohort {queue.cohort}"
