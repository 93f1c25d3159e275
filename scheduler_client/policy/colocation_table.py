"""Many predictions for one kind of job as arrays: a hundred thousand of them stay small."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

import numpy as np
import numpy.typing as npt

from data.domain import Estimate, Source
from scheduler_client.policy.predictions import CardClass, Colocation

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Integers = npt.NDArray[np.int64]

_SOURCES = tuple(Source)
_NUMBER = {source: number for number, source in enumerate(_SOURCES)}


@dataclass(frozen=True, slots=True)
class _Columns:
    """Estimates of all rows: the job's first, then its neighbours'; absent ones are NaN.

    Attributes
    ----------
    bounds : array of shape (n_rows, n_estimates, 3), float64
        Value, lower, upper.
    facts : array of shape (n_rows, n_estimates, 3), int32
        Number of the source, of the model version, and whether inside what was learnt.
    """

    bounds: Floats
    facts: npt.NDArray[np.int32]


class ColocationTable(Mapping[CardClass, Colocation]):
    """What a model said of one kind of job, by card class; never changed once made.

    Parameters
    ----------
    index : mapping of CardClass to int
        The row of each class; tables of the same classes share one.
    usable : array of shape (n_rows,), bool, optional
        Rows that count; all of them by default.
    """

    def __init__(
        self,
        index: Mapping[CardClass, int],
        columns: _Columns,
        versions: Sequence[str],
        usable: Flags | None = None,
    ) -> None:
        self.index, self._columns, self._versions = index, columns, versions
        self.usable = usable

    @classmethod
    def of(cls, index: Mapping[CardClass, int], found: Sequence[Colocation]) -> "ColocationTable":
        """Return a table of colocations whose slowdowns were all predicted by a model.

        Parameters
        ----------
        found : sequence of Colocation, in the order of `index`
        """
        listed = [colocation.slowdowns for colocation in found]
        versions: dict[str, int] = {}
        for estimate in chain.from_iterable(listed):
            versions.setdefault(estimate.model_version, len(versions))
        width = max(map(len, listed), default=1)
        bounds = np.full((len(listed), width, 3), np.nan)
        facts = np.zeros((len(listed), width, 3), dtype=np.int32)
        for row, estimates in enumerate(listed):
            for place, e in enumerate(estimates):
                bounds[row, place] = e.value, e.lower, e.upper
                facts[row, place] = _NUMBER[e.source], versions[e.model_version], e.in_domain
        return cls(index, _Columns(bounds, facts), tuple(versions))

    def only(self, usable: Flags) -> "ColocationTable":
        """Return this table without the rows that do not count any more."""
        return ColocationTable(self.index, self._columns, self._versions, usable)

    def __getitem__(self, card: CardClass) -> Colocation:
        """Return the prediction for a class with residents, or raise `KeyError`."""
        if not self._counts(card, self.index[card]):
            raise KeyError(card)
        return self.answered(card)

    def answered(self, card: CardClass) -> Colocation:
        """Return what was answered for a class, whether it counts (still) or not."""
        row = self.index[card]
        mine, *theirs = (self._estimate(row, place) for place in range(1 + len(card.resident_keys)))
        return Colocation(mine, tuple(theirs))

    def __iter__(self) -> Iterator[CardClass]:
        """Go through the classes that were predicted."""
        return (card for card, row in self.index.items() if self._counts(card, row))

    def __len__(self) -> int:
        """Return how many classes were predicted."""
        return sum(1 for _ in self)

    @cached_property
    def upper_terms(self) -> tuple[Floats, Floats]:
        """The worst upper slowdown of each row, and the sum of what is above 1."""
        return _terms(self._columns.bounds[:, :, 2])

    @cached_property
    def value_terms(self) -> tuple[Floats, Floats]:
        """The same by value, where inside what was learnt; outside, by the upper end."""
        bounds, is_known = self._columns.bounds, self._columns.facts[:, :, 2] == 1
        return _terms(np.where(is_known, bounds[:, :, 0], bounds[:, :, 2]))

    def _counts(self, card: CardClass, row: int) -> bool:
        # What happens on an empty card needs no model, and is asked only for the memory.
        return bool(card.resident_keys) and (self.usable is None or bool(self.usable[row]))

    def _estimate(self, row: int, place: int) -> Estimate:
        value, lower, upper = (float(bound) for bound in self._columns.bounds[row, place])
        source, version, is_known = (int(fact) for fact in self._columns.facts[row, place])
        name = self._versions[version]
        return Estimate(value, lower, upper, name, _SOURCES[source], is_known == 1)


def _terms(slowdowns: Floats) -> tuple[Floats, Floats]:
    if not slowdowns.size:
        return np.zeros(len(slowdowns)), np.zeros(len(slowdowns))
    worst = np.nanmax(slowdowns, axis=1)
    contention = np.zeros(len(slowdowns))
    for column in np.nan_to_num(slowdowns, nan=1.0).T:  # in the order in which `sum` adds
        contention = contention + np.maximum(0.0, column - 1)
    return worst, contention
