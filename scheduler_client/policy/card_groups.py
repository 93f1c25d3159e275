"""Cards that no job can tell apart, as one group: ten thousand cards are few groups."""

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

from scheduler_client.policy.predictions import CardClass
from scheduler_client.policy.view import CardState

T = TypeVar("T")
Integers = npt.NDArray[np.int64]
Owners = tuple[str, ...]
"""Queues of a card's residents, sorted; an empty name for a resident that is nobody's."""

COLUMNS = ("model", "total", "free", "residents", "card_class", "owners", "hold", "count")


_Key = tuple[str, tuple[str, ...], int, int, Owners, int]
"""Model, resident keys, total and free MiB, owners, hold: what cards of one group share."""


class _Numbered(Generic[T]):
    """Numbers values in the order in which they are first seen."""

    def __init__(self) -> None:
        self.values: list[T] = []
        self._numbers: dict[T, int] = {}

    def number(self, value: T) -> int:
        number = self._numbers.setdefault(value, len(self.values))
        if number == len(self.values):
            self.values.append(value)
        return number


class CardGroups:
    """The cards with room for one more job, by equal state, as columns over groups.

    Parameters
    ----------
    cards : iterable of CardState
    owners : callable
        Card to the queues of its residents.
    max_jobs_per_card : int
    holds : mapping of str to int
        Card id to the number (from 1) of the reservation that it is kept for.

    Attributes
    ----------
    models, card_classes, owner_sets : list
        What the numbers in the columns stand for.
    ids : list of list of str
        Card ids of each group, sorted.
    unhealthy : int
    healthy, full : Counter of str
        Cards of each GPU model, and those of them that have no room.
    """

    def __init__(
        self,
        cards: Iterable[CardState],
        owners: Callable[[CardState], Owners],
        max_jobs_per_card: int,
        holds: dict[str, int],
    ) -> None:
        self._owners, self._max_jobs, self._holds = owners, max_jobs_per_card, holds
        self._models = _Numbered[str]()
        self._card_classes = _Numbered[CardClass]()
        self._owner_sets = _Numbered[Owners]()
        self.models = self._models.values
        self.card_classes = self._card_classes.values
        self.owner_sets = self._owner_sets.values
        self._groups: dict[_Key, int] = {}
        self.ids: list[list[str]] = []
        self._rows = np.zeros((len(COLUMNS), 64), dtype=np.int64)
        self.unhealthy = 0
        self.healthy: Counter[str] = Counter()
        self.full: Counter[str] = Counter()
        for card in cards:
            self._add(card, in_order=False)
        for ids in self.ids:
            ids.sort()

    def column(self, name: str) -> Integers:
        """Return a column over all groups, of shape (n_groups,); do not change it."""
        return self._rows[COLUMNS.index(name), : len(self.ids)]

    def replace(self, before: CardState, after: CardState) -> None:
        """Move a card to the group of what it has become."""
        group = self._groups[self._key(before)]
        ids = self.ids[group]
        del ids[bisect_left(ids, before.card_id)]
        self._rows[-1, group] -= 1
        self.healthy[before.gpu_model] -= 1
        self._add(after, in_order=True)

    def group_of(self, card: CardState) -> int:
        """Return the number of the group that a card with room is in."""
        return self._groups[self._key(card)]

    def _add(self, card: CardState, *, in_order: bool) -> None:
        if not card.is_healthy:
            self.unhealthy += 1
            return
        self.healthy[card.gpu_model] += 1
        if len(card.residents) >= self._max_jobs:
            self.full[card.gpu_model] += 1
            return
        key = self._key(card)
        group = self._groups.get(key)
        if group is None:
            group = self._new_group(key)
        self._rows[-1, group] += 1
        if in_order:
            insort(self.ids[group], card.card_id)
        else:
            self.ids[group].append(card.card_id)

    def _key(self, card: CardState) -> _Key:
        return (
            card.gpu_model,
            tuple(sorted([resident.job_key for resident in card.residents])),
            card.total_mem_mib,
            card.free_mem_mib,
            self._owners(card),
            self._holds.get(card.card_id, 0),
        )

    def _new_group(self, key: _Key) -> int:
        model, resident_keys, total_mib, free_mib, owners, hold = key
        group = self._groups[key] = len(self.ids)
        self.ids.append([])
        if group == self._rows.shape[1]:
            self._rows = np.concatenate([self._rows, np.zeros_like(self._rows)], axis=1)
        card_class = CardClass(model, resident_keys)
        self._rows[:, group] = (
            self._models.number(model),
            total_mib,
            free_mib,
            len(resident_keys),
            self._card_classes.number(card_class),
            self._owner_sets.number(owners),
            hold,
            0,
        )
        return group
