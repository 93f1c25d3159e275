"""What a policy believes that two workloads do to each other, corrected by what it sees."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from scheduler_client.replay.truth import Flags, Floats


@dataclass(frozen=True, slots=True)
class Tolerances:
    """The largest slowdown (>= 1) that a placement may be predicted to cause.

    Attributes
    ----------
    job : float
        To the job that is placed.
    best_effort, guaranteed : float
        To a neighbour, by what it is (`kind_of`).
    caution : float
        What a slowdown that nobody has measured is multiplied by (>= 1) before it is judged.
    """

    job: float
    best_effort: float
    guaranteed: float
    caution: float = 1.0


@dataclass(frozen=True, slots=True)
class Mate:
    """A kind of job as a neighbour of some workload.

    Attributes
    ----------
    kind : int
        See `kind_of`.
    cost : float
        Believed slowdowns above 1 of both, summed.
    mine, theirs : float
        Believed slowdown of the one, and of this mate.
    """

    kind: int
    cost: float
    mine: float
    theirs: float


Mates = Mapping[int, Mate]
"""By kind, the cheapest first."""


def kind_of(workload: int, *, is_guaranteed: bool) -> int:
    """Return the kind by which cards are indexed: the workload, and whose tolerance counts."""
    return 2 * workload + is_guaranteed


class PairBeliefs:
    """Believed slowdowns, and for every workload whom it may join.

    Parameters
    ----------
    slowdown : array of shape (w, w), float64
        Entry (i, k): predicted slowdown (>= 1) of workload i beside k.
    fits : array of shape (w, w), bool
        Whether both fit one card's memory; others are no mates.

    Examples
    --------
    >>> beliefs = PairBeliefs(np.array([[1.8, 1.1], [1.2, 1.0]]), np.ones((2, 2), bool))
    >>> bounds = Tolerances(job=2.0, best_effort=2.0, guaranteed=1.0)
    >>> [mate.theirs for mate in beliefs.mates(0, bounds).values()]
    [1.2, 1.8]
    >>> list(beliefs.mates(0, Tolerances(2.0, 2.0, 1.0, caution=1.2)))
    [2]
    >>> beliefs.observe(0, 1, 3.0)
    >>> list(beliefs.mates(0, bounds))
    [0]
    """

    def __init__(self, slowdown: Floats, fits: Flags) -> None:
        self._slowdown: list[list[float]] = slowdown.tolist()
        self._fits = [np.flatnonzero(row).tolist() for row in fits]
        self._observed: set[tuple[int, int]] = set()
        self._known: dict[tuple[int, Tolerances], Mates] = {}

    def mates(self, workload: int, bounds: Tolerances) -> Mates:
        """Return whom `workload` may join within `bounds`."""
        key = workload, bounds
        if key not in self._known:
            self._known[key] = self._found(workload, bounds)
        return self._known[key]

    def observe(self, workload: int, neighbour: int, slowdown: float) -> None:
        """Take over a measured slowdown.

        The first measurement of a pair replaces the prediction, later ones change nothing.
        """
        if (workload, neighbour) not in self._observed:
            self._observed.add((workload, neighbour))
            self._slowdown[workload][neighbour] = slowdown
            self._known.clear()

    def _found(self, workload: int, bounds: Tolerances) -> Mates:
        found = []
        for other in self._fits[workload]:
            mine, theirs = self._slowdown[workload][other], self._slowdown[other][workload]
            my_worst = mine * self._caution(workload, other, bounds)
            their_worst = theirs * self._caution(other, workload, bounds)
            for is_guaranteed in (False, True):
                most = bounds.guaranteed if is_guaranteed else bounds.best_effort
                if my_worst <= bounds.job and their_worst <= most:
                    kind = kind_of(other, is_guaranteed=is_guaranteed)
                    found.append(Mate(kind, mine + theirs - 2, mine, theirs))
        found.sort(key=lambda mate: (mate.cost, mate.kind))
        return {mate.kind: mate for mate in found}

    def _caution(self, workload: int, neighbour: int, bounds: Tolerances) -> float:
        return 1.0 if (workload, neighbour) in self._observed else bounds.caution
