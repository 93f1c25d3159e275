"""Intervals that hold in each group of rows, not only in all of them: of known groups, of new ones.

Rows of one group err alike, so that a share over all rows says little about the next group:
Dunn, Wasserman and Ramdas, "Distribution-Free Prediction Sets for Two-Layer Hierarchical Models",
JASA 2022; Lee, Barber and Willett, "Distribution-Free Inference with Hierarchical Data", 2023.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipelines.conformal import LEVEL, MIN_GROUP_ROWS, residual_quantiles, tail_quantiles
from pipelines.judged import FEWEST, worst_share
from serving.inference.bundle import Floats

LEAST = 0.8  # share that the worst tenth of new groups is to hold
MIN_GROUPS = 4  # of which one is left out; of fewer nothing general follows
NARROWEST, WIDEST = 0.5, 2.0  # of a known group, against all
TAILS = np.linspace(0.0, 0.08, 9)

Names = NDArray[np.str_]
Quantiles = tuple[float, float]


def known_groups(
    residuals: Floats, names: Names, level: float = LEVEL, smallest: int = MIN_GROUP_ROWS
) -> tuple[Quantiles, Mapping[str, Quantiles]]:
    """Return the quantiles of groups that were seen, each as wide as its own errors are large.

    Parameters
    ----------
    residuals : array of shape (n,), float64, n >= 1
    names : array of shape (n,), str
        The group of each.
    level : float
    smallest : int
        Rows that a group needs to have a size of its own.

    Returns
    -------
    rest : tuple of float
        Lower and upper quantile of a group that is smaller.
    groups : mapping of str to tuple of float

    Notes
    -----
    Residuals are divided by the size of their group's, of which a group needs fewer rows than of
    two quantiles: locally weighted conformal prediction, Lei et al., "Distribution-Free
    Predictive Inference for Regression", JASA 2018.

    Examples
    --------
    >>> names = np.repeat(["calm", "wild"], 99)
    >>> rest, groups = known_groups(np.r_[np.linspace(-1, 1, 99), np.linspace(-2, 2, 99)], names)
    >>> [round(groups[name][1], 2) for name in ("calm", "wild")]
    [0.92, 1.84]
    """
    all_size = np.quantile(np.abs(residuals), level)
    sizes = {
        str(name): _ratio(np.quantile(np.abs(residuals[names == name]), level), all_size)
        for name, rows in zip(*np.unique(names, return_counts=True), strict=True)
        if rows >= smallest
    }
    divisor = np.array([sizes.get(str(name), 1.0) for name in names])
    low, high = residual_quantiles(residuals / divisor, level)
    return (low, high), {name: (low * size, high * size) for name, size in sizes.items()}


def _ratio(own: float, of_all: float) -> float:
    return float(np.clip(own / of_all, NARROWEST, WIDEST)) if of_all > 0 else 1.0


def new_group_quantiles(residuals: Floats, names: Names, level: float = LEVEL) -> Quantiles:
    """Return the quantiles of a group that was not seen.

    Parameters
    ----------
    residuals : array of shape (n,), float64, n >= 1
    names : array of shape (n,), str
        The group of each.
    level : float

    Returns
    -------
    lower, upper : float
        Those of all residuals where fewer than four groups have thirty rows.

    Notes
    -----
    Each group is left out in turn, and the two tails of the others' residuals are cut so that
    `level` of all rows left out are held and 0.8 of them in the worst tenth of the groups; or come
    nearest to it. Of several such cuts that with the least interval score counts: Gneiting and
    Raftery, "Strictly Proper Scoring Rules, Prediction, and Estimation", JASA 2007.

    Examples
    --------
    >>> near, far = np.linspace(-1, 1, 99), np.linspace(-3, 1, 99)
    >>> names = np.repeat(list("abcde"), 99)
    >>> low, high = new_group_quantiles(np.r_[near, near, near, near, far], names)
    >>> low < residual_quantiles(np.r_[near, near, near, near, far])[0]
    True
    """
    rows = np.unique(names, return_counts=True)[1]
    if (rows >= FEWEST).sum() < MIN_GROUPS:
        return residual_quantiles(residuals, level)
    left_out = _LeftOut.of(residuals, names, level)
    best = min(left_out.trials(), key=lambda trial: (round(trial.missing, 6), trial.score))
    return tail_quantiles(residuals, best.low, best.high)


def cross_group_intervals(
    residuals: Floats, folds: Names, names: Names, *, of_new: bool
) -> tuple[Floats, Floats]:
    """Return, for each row, the quantiles that the other folds give its group.

    Parameters
    ----------
    residuals : array of shape (n,), float64
    folds : array of shape (n,), str
        Two folds at least; the rows of a single one get its own quantiles.
    names : array of shape (n,), str
    of_new : bool
        Whether each fold holds groups that the others do not.

    Returns
    -------
    low, high : array of shape (n,), float64

    Examples
    --------
    >>> folds, names = np.array(list("aabb")), np.array(["f"] * 4)
    >>> residuals = np.array([-1.0, 1.0, -3.0, 3.0])
    >>> low, high = cross_group_intervals(residuals, folds, names, of_new=True)
    >>> low.tolist(), high.tolist()
    ([-3.0, -3.0, -1.0, -1.0], [3.0, 3.0, 1.0, 1.0])
    """
    bounds = np.empty((len(residuals), 2))
    for fold in np.unique(folds):
        own = folds == fold
        rest = ~own if not own.all() else own
        if of_new:
            bounds[own] = new_group_quantiles(residuals[rest], names[rest])
            continue
        others, groups = known_groups(residuals[rest], names[rest])
        bounds[own] = [groups.get(str(name), others) for name in names[own]]
    return bounds[:, 0], bounds[:, 1]


@dataclass(frozen=True, slots=True)
class _Trial:
    """Two tails to cut, by how much they miss what is wanted, and their interval score."""

    low: float
    high: float
    missing: float
    score: float


@dataclass(frozen=True, slots=True)
class _LeftOut:
    """The ends that all other groups give to each row, shape (n_tails, n)."""

    residuals: Floats
    names: Names
    level: float
    lower: Floats
    upper: Floats

    @classmethod
    def of(cls, residuals: Floats, names: Names, level: float) -> "_LeftOut":
        ends = np.empty((2, len(TAILS), len(residuals)))
        for name in np.unique(names):
            own = names == name
            for at, tail in enumerate(TAILS):
                ends[:, at, own] = np.array([tail_quantiles(residuals[~own], tail, tail)]).T
        return cls(residuals, names, level, np.minimum(ends[0], 0.0), np.maximum(ends[1], 0.0))

    def trials(self) -> Iterator[_Trial]:
        """Yield each combination of two tails."""
        for low, lower in zip(TAILS, self.lower, strict=True):
            for high, upper in zip(TAILS, self.upper, strict=True):
                yield _Trial(float(low), float(high), *self._judged(lower, upper))

    def _judged(self, lower: Floats, upper: Floats) -> tuple[float, float]:
        residuals = self.residuals
        inside = (residuals >= lower) & (residuals <= upper)
        worst = worst_share(inside, self.names)
        short = max(self.level - float(inside.mean()), 0.0)
        short += max(LEAST - (1.0 if worst is None else worst), 0.0)
        missed = np.maximum(lower - residuals, 0) + np.maximum(residuals - upper, 0)
        return short, float((upper - lower + 2 / (1 - self.level) * missed).mean())
