"""What a policy believes that two workloads do to each other, corrected by what it sees."""

from dataclasses import dataclass

import numpy as np

from scheduler_client.replay.truth import Flags, Floats


@dataclass(frozen=True, slots=True)
class Mate:
    """A workload as a neighbour of another one.

    Attributes
    ----------
    workload : int
    cost : float
        Believed slowdowns above 1 of both, summed.
    mine, theirs : float
        Believed slowdown of the one, and of this mate.
    """

    workload: int
    cost: float
    mine: float
    theirs: float


class PairBeliefs:
    """Believed slowdowns, and for every workload its mates, the cheapest first.

    Parameters
    ----------
    slowdown : array of shape (w, w), float64
        Entry (i, k): predicted slowdown (>= 1) of workload i beside k.
    fits : array of shape (w, w), bool
        Whether both fit one card's memory; others are no mates.

    Examples
    --------
    >>> beliefs = PairBeliefs(np.array([[1.8, 1.1], [1.2, 1.0]]), np.ones((2, 2), bool))
    >>> [mate.workload for mate in beliefs.mates(0)]
    [1, 0]
    >>> beliefs.observe(0, 1, 3.0)
    True
    >>> [mate.workload for mate in beliefs.mates(0)]
    [0, 1]
    """

    def __init__(self, slowdown: Floats, fits: Flags) -> None:
        self._slowdown: list[list[float]] = slowdown.tolist()
        self._fits = fits
        self._observed: set[tuple[int, int]] = set()
        self._mates: list[list[Mate]] = [[] for _ in slowdown]
        self._by_workload: list[dict[int, Mate]] = [{} for _ in slowdown]
        for workload in range(len(slowdown)):
            self._rank(workload)

    def mate(self, workload: int, other: int) -> Mate | None:
        """Return `other` as a neighbour of `workload`; None where both do not fit one card."""
        return self._by_workload[workload].get(other)

    def mates(self, workload: int) -> list[Mate]:
        """Return whom `workload` could join, the cheapest pair first."""
        return self._mates[workload]

    def observe(self, workload: int, neighbour: int, slowdown: float) -> bool:
        """Take over a measured slowdown; return whether it was new.

        The first measurement of a pair replaces the prediction, later ones change nothing.
        """
        if (workload, neighbour) in self._observed:
            return False
        self._observed.add((workload, neighbour))
        self._slowdown[workload][neighbour] = slowdown
        for changed in {workload, neighbour}:
            self._rank(changed)
        return True

    def _rank(self, workload: int) -> None:
        found = []
        for other in np.flatnonzero(self._fits[workload]).tolist():
            mine, theirs = self._slowdown[workload][other], self._slowdown[other][workload]
            found.append(Mate(other, mine + theirs - 2, mine, theirs))
        self._mates[workload] = sorted(found, key=lambda mate: (mate.cost, mate.workload))
        self._by_workload[workload] = {mate.workload: mate for mate in found}
