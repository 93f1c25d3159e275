"""Answers of the service, with their age: fresh ones save asking, older ones bridge an outage."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from data.domain import Estimate, Placement
from scheduler_client.policy.colocation_table import ColocationTable
from scheduler_client.policy.predictions import CardClass, Colocation, JobClass

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Classes = tuple[CardClass, ...]

KEPT = 200_000


@dataclass(frozen=True, slots=True)
class Answers:
    """What is known of a job class on some card classes.

    Attributes
    ----------
    colocations : mapping of CardClass to Colocation
        Answers for shared cards that are not too old.
    memory : mapping of str to Estimate
        By GPU model (MiB).
    is_whole : bool
        Whether there is an answer for all of them.
    missing : tuple of CardClass
        Those without one, and those whose answer is not fresh.
    oldest_s : float
        When the oldest usable answer was given.
    """

    colocations: Mapping[CardClass, Colocation] = field(default_factory=dict)
    memory: Mapping[str, Estimate] = field(default_factory=dict)
    is_whole: bool = False
    missing: Classes = ()
    oldest_s: float = float("inf")


@dataclass(slots=True)
class _Entry:
    """All answers for one job class, row by row in the order of `table.index`."""

    table: ColocationTable
    answered_s: Floats
    memory: dict[str, Estimate]
    asked: Classes = ()
    rows: Integers = field(default_factory=lambda: np.zeros(0, dtype=np.int64))


class LastGood:
    """The newest good answer for every pair of classes, until it is too old.

    Parameters
    ----------
    fresh_s, last_good_s : float
        Up to which age an answer counts as fresh, and as usable at all.
    """

    def __init__(self, fresh_s: float, last_good_s: float) -> None:
        self._fresh_s, self._last_good_s = fresh_s, max(fresh_s, last_good_s)
        self._known: dict[JobClass, _Entry] = {}
        self._index: Mapping[CardClass, int] = {}
        self._count = 0

    def put(
        self, job: JobClass, answers: Iterable[tuple[CardClass, Placement]], now_s: float
    ) -> None:
        """Remember what was answered for one job class."""
        found, memory = {}, {}
        for card, placement in answers:
            found[card] = Colocation(placement.job_slowdown, placement.neighbour_slowdowns)
            memory[card.gpu_model] = placement.memory
        answered = dict.fromkeys(found, now_s)
        before = self._known.pop(job, None)
        if before is not None:
            self._count -= len(before.answered_s)
            kept = [c for c in before.table.index if c not in found]
            found = {**{c: before.table.answered(c) for c in kept}, **found}
            answered |= {c: float(before.answered_s[before.table.index[c]]) for c in kept}
            memory = before.memory | memory
        entry = self._entry(found, answered, memory)
        self._known[job] = entry  # newest at the end
        self._count += len(entry.answered_s)
        while self._count > KEPT and len(self._known) > 1:
            self._count -= len(self._known.pop(next(iter(self._known))).answered_s)

    def answers(self, job: JobClass, cards: Classes, now_s: float) -> Answers:
        """Return what is known of a job class on `cards`."""
        entry = self._known.get(job)
        if entry is None:
            return Answers(missing=cards)
        if entry.asked is not cards:
            index = entry.table.index
            entry.asked = cards
            entry.rows = np.array([index.get(card, -1) for card in cards], dtype=np.int64)
        age_s = now_s - entry.answered_s
        too_old = age_s > self._last_good_s
        table = entry.table.only(~too_old) if too_old.any() else entry.table
        ages_s = np.where(entry.rows < 0, np.inf, age_s[entry.rows])
        is_usable = ages_s <= self._last_good_s
        missing: Classes = ()
        if (ages_s > self._fresh_s).any():
            missing = tuple(cards[place] for place in np.flatnonzero(ages_s > self._fresh_s))
        return Answers(
            colocations=table,
            memory={} if too_old.all() else entry.memory,
            is_whole=bool(is_usable.all()),
            missing=missing,
            oldest_s=now_s - float(ages_s[is_usable].max(initial=0.0)),
        )

    def _entry(
        self,
        found: Mapping[CardClass, Colocation],
        answered: Mapping[CardClass, float],
        memory: dict[str, Estimate],
    ) -> _Entry:
        if self._index.keys() != found.keys():
            self._index = {card: row for row, card in enumerate(found)}
        table = ColocationTable.of(self._index, [found[card] for card in self._index])
        answered_s = np.array([answered[card] for card in self._index], dtype=np.float64)
        return _Entry(table, answered_s, memory)
