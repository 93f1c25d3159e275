"""Cards that no job can tell apart, as one group: ten thousand cards are few groups."""

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

from scheduler_client.policy.predictions import CardClass
from scheduler_client.policy.view import CardState

T = TypeVar("T")
Integers = npt.NDArray[np.int64]
Owners = tuple[str, ...]
"""Queues of a card's residents, sorted; an empty name for a resident that is nobody's."""

_GroupKey = tuple[str, tuple[str, ...], int, int, int]
"""Model, resident keys, total and free MiB, hold: what filter and score look at."""

GROUP_COLUMNS = ("model", "total", "free", "residents", "card_class", "hold", "count")
CELL_COLUMNS = ("group", "owners", "count")


class _Numbered(Generic[T]):
    """Numbers values in the order in which they are first seen."""

    def __init__(self) -> None:
        self.values: list[T] = []
        self.numbers: dict[T, int] = {}

    def number(self, value: T) -> int:
        number = self.numbers.setdefault(value, len(self.values))
        if number == len(self.values):
            self.values.append(value)
        return number


class _Table:
    """Columns of whole numbers that grow by rows."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self._place = {name: place for place, name in enumerate(names)}
        self._rows = np.zeros((len(names), 256), dtype=np.int64)
        self.size = 0

    def add(self, row: tuple[int, ...]) -> int:
        if self.size == self._rows.shape[1]:
            self._rows = np.concatenate([self._rows, np.zeros_like(self._rows)], axis=1)
        self._rows[:, self.size] = row
        self.size += 1
        return self.size - 1

    def column(self, name: str) -> Integers:
        return self._rows[self._place[name], : self.size]


class CardGroups:
    """The cards with room for one more job, by equal state, as columns.

    Cards of one *group* are alike to filter and score; those of one *cell* of it have residents
    of the same queues too, and are alike to the quota.

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
        Card ids of each cell, sorted.
    cells_of : list of list of int
        The cells of each group.
    unhealthy : int
    healthy, full : Counter of str
        Cards of each GPU model, and those of them that have no room.
    """

    def __init__(
        self,
        cards: Iterable[CardState],
        owners: Callable[[CardState], Owners],
        max_jobs_per_card: int,
        holds: Mapping[str, int],
    ) -> None:
        self._owners, self._max_jobs, self._holds = owners, max_jobs_per_card, holds
        self._models, self._owner_sets = _Numbered[str](), _Numbered[Owners]()
        self._card_classes = _Numbered[CardClass]()
        self.models = self._models.values
        self.card_classes = self._card_classes.values
        self.owner_sets = self._owner_sets.values
        self._groups: dict[_GroupKey, int] = {}
        self._cells: dict[tuple[int, Owners], int] = {}
        self._group_table, self._cell_table = _Table(GROUP_COLUMNS), _Table(CELL_COLUMNS)
        self.ids: list[list[str]] = []
        self.cells_of: list[list[int]] = []
        self.unhealthy = 0
        self.healthy: Counter[str] = Counter()
        self.full: Counter[str] = Counter()
        for card in cards:
            cell = self._cell_of_new(card)
            if cell is not None:
                self.ids[cell].append(card.card_id)
        for ids in self.ids:
            ids.sort()
        counts = np.array([len(ids) for ids in self.ids], dtype=np.int64)
        self.cell_column("count")[:] = counts
        np.add.at(self.column("count"), self.cell_column("group"), counts)

    def column(self, name: str) -> Integers:
        """Return a column over all groups, of shape (n_groups,); do not change it."""
        return self._group_table.column(name)

    def cell_column(self, name: str) -> Integers:
        """Return a column over all cells, of shape (n_cells,); do not change it."""
        return self._cell_table.column(name)

    def replace(self, before: CardState, after: CardState) -> None:
        """Move a card to the group of what it has become; it had room before."""
        cell = self._cells[self._groups[self._key(before)], self._owners(before)]
        ids = self.ids[cell]
        del ids[bisect_left(ids, before.card_id)]
        self.healthy[before.gpu_model] -= 1
        self._count(cell, -1)
        joined = self._cell_of_new(after)
        if joined is not None:
            insort(self.ids[joined], after.card_id)
            self._count(joined, +1)

    def group_of(self, card: CardState) -> int:
        """Return the number of the group that a card with room is in."""
        return self._groups[self._key(card)]

    def _count(self, cell: int, change: int) -> None:
        self.cell_column("count")[cell] += change
        self.column("count")[self.cell_column("group")[cell]] += change

    def _cell_of_new(self, card: CardState) -> int | None:
        """Return the cell of a card that comes in, or None where it has no room."""
        if not card.is_healthy:
            self.unhealthy += 1
            return None
        self.healthy[card.gpu_model] += 1
        if len(card.residents) >= self._max_jobs:
            self.full[card.gpu_model] += 1
            return None
        return self._cell(self._group(card), self._owners(card))

    def _group(self, card: CardState) -> int:
        key = self._key(card)
        group = self._groups.get(key)
        if group is None:
            model, resident_keys, total_mib, free_mib, hold = key
            row = (
                self._models.number(model),
                total_mib,
                free_mib,
                len(resident_keys),
                self._card_classes.number(CardClass(model, resident_keys)),
                hold,
                0,
            )
            group = self._groups[key] = self._group_table.add(row)
            self.cells_of.append([])
        return group

    def _cell(self, group: int, owners: Owners) -> int:
        cell = self._cells.get((group, owners))
        if cell is None:
            row = (group, self._owner_sets.number(owners), 0)
            cell = self._cells[group, owners] = self._cell_table.add(row)
            self.cells_of[group].append(cell)
            self.ids.append([])
        return cell

    def _key(self, card: CardState) -> _GroupKey:
        residents = card.residents
        keys = (
            (residents[0].job_key,)
            if len(residents) == 1
            else tuple(sorted([resident.job_key for resident in residents]))
        )
        hold = self._holds.get(card.card_id, 0)
        return card.gpu_model, keys, card.total_mem_mib, card.free_mem_mib, hold
