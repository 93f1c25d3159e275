"""Parts of the judged rows, such as one user's: whether any of them loses by a promotion."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import binom, wilcoxon

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Part:
    """How the challenger does on one part.

    Attributes
    ----------
    name : str
        Such as ``user=ada``.
    rows : int
    gain : float
        Mean of champion error minus challenger error; NaN without a champion.
    loss_chance : float
        Chance of losing as much or more if both were alike; 1 without a champion.
    coverage : float, in [0, 1]
    """

    name: str
    rows: int
    gain: float
    loss_chance: float
    coverage: float

    def coverage_chance(self, floor: float) -> float:
        """Return the chance of covering so few rows if each were covered with chance `floor`."""
        return float(binom.cdf(round(self.coverage * self.rows), self.rows, floor))


def parts_found(
    parts: Mapping[str, ArrayLike], gains: Floats | None, covered: Floats, fewest: int
) -> list[Part]:
    """Return each part with at least `fewest` rows that is not everything.

    Parameters
    ----------
    parts : mapping of str to array-like of shape (n,)
        Label to the value of each row.
    gains : float64 array of shape (n,), optional
    covered : float64 array of shape (n,)
    fewest : int

    Notes
    -----
    ``loss_chance`` is Wilcoxon's signed-rank test, "Individual comparisons by ranking methods",
    Biometrics Bulletin 1945: one long job more or less does not decide.

    Examples
    --------
    >>> users = np.repeat(["ada", "bob"], 20)
    >>> found = parts_found({"user": users}, np.repeat([0.1, -0.1], 20), np.ones(40), 20)
    >>> [(part.name, round(part.gain, 3), part.loss_chance < 0.001) for part in found]
    [('user=ada', 0.1, False), ('user=bob', -0.1, True)]
    """
    result = []
    for label, names in parts.items():
        values = np.asarray(names, dtype=np.str_)
        for value, rows in zip(*np.unique(values, return_counts=True), strict=True):
            if fewest <= rows < len(values):
                mask = values == value
                of_part = None if gains is None else gains[mask]
                result.append(_part(f"{label}={value}", of_part, covered[mask]))
    return result


def _part(name: str, gains: Floats | None, covered: Floats) -> Part:
    rows, coverage = len(covered), float(covered.mean())
    if gains is None:
        return Part(name, rows, float("nan"), 1.0, coverage)
    moved = gains[gains != 0]
    chance = float(wilcoxon(moved, alternative="less").pvalue) if len(moved) else 1.0
    return Part(name, rows, float(gains.mean()), chance, coverage)
