"""Intervals that hold in each group of rows, not only in all of them."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from pipelines.conformal import LEVEL, MIN_GROUP_ROWS, residual_quantiles, tail_quantiles
from serving.inference.bundle import Floats

NARROWEST, WIDEST = 0.5, 2.0  # of a known group, against all

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


def cross_group_intervals(
    residuals: Floats, folds: Names, names: Names, tails: tuple[float, float] | None = None
) -> tuple[Floats, Floats]:
    """Return, for each row, the quantiles that the other folds give its group.

    Parameters
    ----------
    residuals : array of shape (n,), float64
    folds : array of shape (n,), str
        Two folds at least; the rows of a single one get its own quantiles.
    names : array of shape (n,), str
    tails : tuple of float, optional
        As for `tail_quantiles`, where each fold holds groups that the others do not.

    Returns
    -------
    low, high : array of shape (n,), float64

    Examples
    --------
    >>> folds, names = np.array(list("aabb")), np.array(["f"] * 4)
    >>> residuals = np.array([-1.0, 1.0, -3.0, 3.0])
    >>> low, high = cross_group_intervals(residuals, folds, names, (0.05, 0.05))
    >>> low.tolist(), high.tolist()
    ([-3.0, -3.0, -1.0, -1.0], [3.0, 3.0, 1.0, 1.0])
    """
    bounds = np.empty((len(residuals), 2))
    for fold in np.unique(folds):
        own = folds == fold
        rest = ~own if not own.all() else own
        if tails:
            bounds[own] = tail_quantiles(residuals[rest], *tails)
            continue
        others, groups = known_groups(residuals[rest], names[rest])
        bounds[own] = [groups.get(str(name), others) for name in names[own]]
    return bounds[:, 0], bounds[:, 1]
