"""Parts of the judged rows, such as one user's: whether any of them loses by a promotion."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import binom, wilcoxon

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Coverage:
    """Share of observed values inside the challenger's and the champion's interval; NaN unknown."""

    challenger: float
    champion: float


@dataclass(frozen=True, slots=True)
class Part:
    """How the challenger does on one part.

    Attributes
    ----------
    name : str
        Such as ``user=ada``.
    groups : int
        Of rows.
    gain : float
        Mean of champion error minus challenger error; NaN without a champion.
    loss_chance : float
        Chance of losing as much or more if both were alike; 1 without a champion.
    coverage : Coverage
    """

    name: str
    groups: int
    gain: float
    loss_chance: float
    coverage: Coverage

    def coverage_chance(self, floor: float) -> float:
        """Return the chance of covering so few if each were covered with chance `floor`.

        1 where the champion covers no more: keeping it would not help.
        """
        if self.coverage.champion <= self.coverage.challenger:
            return 1.0
        return float(binom.cdf(round(self.coverage.challenger * self.groups), self.groups, floor))


@dataclass(frozen=True, slots=True)
class Judged:
    """Judged rows, in order.

    Attributes
    ----------
    gains : float64 array of shape (n,), optional
        Champion error minus challenger error; None without a champion.
    covered, champion_covered : float64 array of shape (n,)
        The latter is None without a champion, or where it is not known.
    groups : array of shape (n,)
        What rows repeat; one group is one piece of evidence.
    """

    gains: Floats | None
    covered: Floats
    groups: NDArray[np.generic]
    champion_covered: Floats | None = None


def parts_found(parts: Mapping[str, ArrayLike], judged: Judged, fewest: int) -> list[Part]:
    """Return each part with at least `fewest` groups of rows that is not everything.

    Parameters
    ----------
    parts : mapping of str to array-like of shape (n,)
        Label to the value of each row.
    judged : Judged
    fewest : int

    Notes
    -----
    ``loss_chance`` is Wilcoxon's signed-rank test, "Individual comparisons by ranking methods",
    Biometrics Bulletin 1945, on means over groups: one long job, or one large batch, more or less
    does not decide.

    Examples
    --------
    >>> users = np.repeat(["ada", "bob"], 20)
    >>> judged = Judged(np.repeat([0.1, -0.1], 20), np.ones(40), np.arange(40))
    >>> found = parts_found({"user": users}, judged, 20)
    >>> [(part.name, round(part.gain, 3), part.loss_chance < 0.001) for part in found]
    [('user=ada', 0.1, False), ('user=bob', -0.1, True)]
    """
    result = []
    for label, names in parts.items():
        values = np.asarray(names, dtype=np.str_)
        for value, rows in zip(*np.unique(values, return_counts=True), strict=True):
            if fewest <= rows < len(values):
                mask = values == value
                if len(np.unique(judged.groups[mask])) >= fewest:
                    result.append(_part(f"{label}={value}", judged, mask))
    return result


def _part(name: str, judged: Judged, mask: NDArray[np.bool_]) -> Part:
    _, which = np.unique(judged.groups[mask], return_inverse=True)
    covered = group_means(judged.covered[mask], which)
    before = judged.champion_covered
    coverage = Coverage(
        float(covered.mean()),
        float("nan") if before is None else float(group_means(before[mask], which).mean()),
    )
    if judged.gains is None:
        return Part(name, len(covered), float("nan"), 1.0, coverage)
    gains = group_means(judged.gains[mask], which)
    moved = gains[gains != 0]
    chance = float(wilcoxon(moved, alternative="less").pvalue) if len(moved) else 1.0
    return Part(name, len(covered), float(gains.mean()), chance, coverage)


def group_means(values: Floats, which: NDArray[np.intp]) -> Floats:
    """Return the mean of each group; `which` says of each value to which one it belongs."""
    return np.bincount(which, weights=values) / np.bincount(which)
