"""What is predicted for a kind of job on every class of cards, as arrays."""

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from scheduler_client.policy.predictions import UNSHARED, CardClass, Colocation
from scheduler_client.policy.scoring import Bound, contention, worst_slowdown

Floats = npt.NDArray[np.float64]


class Outlook:
    """The predictions for one kind of job, by the number of the card class.

    Parameters
    ----------
    colocations : mapping of CardClass to Colocation
        A class that is absent was not predicted.
    bound : Bound
    """

    def __init__(self, colocations: Mapping[CardClass, Colocation], bound: Bound) -> None:
        self._colocations, self._bound = colocations, bound
        self._rows: list[tuple[float, float, float]] = []
        self._array = np.empty((0, 3))

    def columns(self, card_classes: Sequence[CardClass]) -> tuple[Floats, Floats, Floats]:
        """Return what is predicted for each of `card_classes`, a list that only ever grows.

        Returns
        -------
        tuple of three arrays of shape (n_classes,), float64
            The worst slowdown that joining causes (NaN where unpredicted), the summed slowdowns
            above 1, and the utilisation part of DeepShare's node cost (NaN where a model spoke).
        """
        if len(self._rows) < len(card_classes):
            self._rows += [self._row(found) for found in card_classes[len(self._rows) :]]
            self._array = np.array(self._rows, dtype=np.float64)
        worst, cost, util = self._array.T
        return worst, cost, util

    def _row(self, card_class: CardClass) -> tuple[float, float, float]:
        unknown = None if card_class.resident_keys else UNSHARED
        found = self._colocations.get(card_class, unknown)
        if found is None:
            return float("nan"), float("nan"), float("nan")
        util = float("nan") if found.gpu_util_cost is None else found.gpu_util_cost
        return worst_slowdown(found, self._bound), contention(found, self._bound), util


class Outlooks:
    """One `Outlook` for all jobs of a cycle that share their predictions."""

    def __init__(self, bound: Bound) -> None:
        self._bound = bound
        self._known: dict[int, Outlook] = {}

    def of(self, colocations: Mapping[CardClass, Colocation]) -> Outlook:
        """Return the outlook of a job with these predictions."""
        # By identity: the predictions of a cycle outlive it, and hashing them costs more.
        found = self._known.get(id(colocations))
        if found is None:
            found = self._known[id(colocations)] = Outlook(colocations, self._bound)
        return found
