"""What is predicted for a kind of job on every class of cards, as arrays."""

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from scheduler_client.policy.colocation_table import ColocationTable
from scheduler_client.policy.predictions import UNSHARED, CardClass, Colocation
from scheduler_client.policy.scoring import Bound, contention, worst_slowdown

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Columns = tuple[Floats, Floats, Floats]

NOTHING: Mapping[CardClass, Colocation] = {}
"""Where nothing was predicted, which is the same for all jobs."""


class Outlooks:
    """The predictions of a cycle by the number of the card class.

    Parameters
    ----------
    bound : Bound
    card_classes : list of CardClass
        What the numbers stand for; it only ever grows.
    """

    def __init__(self, bound: Bound, card_classes: Sequence[CardClass]) -> None:
        self._bound, self._card_classes = bound, card_classes
        self._known: dict[int, Outlook] = {}
        self._rows: dict[int, Integers] = {}

    def of(self, colocations: Mapping[CardClass, Colocation]) -> "Outlook":
        """Return the outlook of all jobs that share these predictions."""
        # By identity: the predictions of a cycle outlive it, and hashing them costs more.
        colocations = colocations or NOTHING
        found = self._known.get(id(colocations))
        if found is None:
            found = self._known[id(colocations)] = Outlook(colocations, self)
        return found

    @property
    def size(self) -> int:
        """How many card classes there are now."""
        return len(self._card_classes)

    def tabled(self, table: ColocationTable) -> Columns:
        """Return what a table says of all card classes."""
        rows = self._rows_of(table.index)
        worst, cost = table.upper_terms if self._bound is Bound.UPPER else table.value_terms
        if table.usable is not None:
            worst = np.where(table.usable, worst, np.nan)
        # One row more than the table has: what is not in it, and what needs no prediction.
        worst, cost = np.append(worst, (np.nan, 1.0)), np.append(cost, (np.nan, 0.0))
        return worst[rows], cost[rows], np.full(len(rows), np.nan)

    def listed(self, colocations: Mapping[CardClass, Colocation]) -> Columns:
        """Return what any mapping says of all card classes."""
        rows = [_row(colocations, card, self._bound) for card in self._card_classes]
        worst, cost, util = np.array(rows, dtype=np.float64).reshape(-1, 3).T
        return worst, cost, util

    def _rows_of(self, index: Mapping[CardClass, int]) -> Integers:
        known = self._rows.get(id(index))
        if known is None or len(known) < self.size:
            absent, alone = len(index), len(index) + 1
            rows = [
                index.get(card, absent) if card.resident_keys else alone
                for card in self._card_classes
            ]
            known = self._rows[id(index)] = np.array(rows, dtype=np.int64)
        return known


class Outlook:
    """The predictions for one kind of job."""

    def __init__(self, colocations: Mapping[CardClass, Colocation], outlooks: Outlooks) -> None:
        self._colocations, self._outlooks = colocations, outlooks
        self._columns: Columns | None = None

    def columns(self) -> Columns:
        """Return what is predicted for each card class.

        Returns
        -------
        tuple of three arrays of shape (n_classes,), float64
            The worst slowdown that joining causes (NaN where unpredicted), the summed slowdowns
            above 1, and the utilisation part of DeepShare's node cost (NaN where a model spoke).
        """
        if self._columns is None or len(self._columns[0]) < self._outlooks.size:
            if isinstance(self._colocations, ColocationTable):
                self._columns = self._outlooks.tabled(self._colocations)
            else:
                self._columns = self._outlooks.listed(self._colocations)
        return self._columns


def _row(
    colocations: Mapping[CardClass, Colocation], card: CardClass, bound: Bound
) -> tuple[float, float, float]:
    found = colocations.get(card, None if card.resident_keys else UNSHARED)
    if found is None:
        return float("nan"), float("nan"), float("nan")
    util = float("nan") if found.gpu_util_cost is None else found.gpu_util_cost
    return worst_slowdown(found, bound), contention(found, bound), util
