"""Calibrated intervals from the errors on rows that were held out.

Split conformal prediction: Papadopoulos et al., "Inductive Confidence Machines for Regression",
ECML 2002. Residuals pooled over folds: Vovk, "Cross-conformal predictors", Annals of Mathematics
and Artificial Intelligence, 2015. One quantile a group (Mondrian): Vovk, Gammerman and Shafer,
"Algorithmic Learning in a Random World", 2005.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from serving.inference.bundle import Calibration, Floats

LEVEL = 0.9
MIN_GROUP_ROWS = 60  # below, the 5 % quantile rests on fewer than three rows
MIN_OUTSIDE_ROWS = 20
WIDEST_OUTSIDE = 4.0
DEFAULT_OUTSIDE = 1.5  # where no held-out row lay outside what was learnt


def residual_quantiles(residuals: Floats, level: float = LEVEL) -> tuple[float, float]:
    """Return the two quantiles between which a new residual lies with probability `level`.

    Parameters
    ----------
    residuals : array of shape (n,), float64, n >= 1
        Observed minus predicted, on held-out rows.
    level : float
        In (0, 1).

    Returns
    -------
    lower, upper : float
        Order statistics with the correction for a finite sample; of too few rows the extremes,
        which then cover less than `level`.

    Examples
    --------
    >>> residual_quantiles(np.arange(1.0, 100.0), 0.9)
    (5.0, 95.0)
    >>> residual_quantiles(np.array([-1.0, 3.0]), 0.9)
    (-1.0, 3.0)
    """
    return tail_quantiles(residuals, (1 - level) / 2, (1 - level) / 2)


def tail_quantiles(residuals: Floats, lower: float, upper: float) -> tuple[float, float]:
    """Return the same for tails of different weight.

    Parameters
    ----------
    residuals : array of shape (n,), float64, n >= 1
    lower, upper : float
        Probabilities in [0, 0.5) that a new residual lies below, and above.

    Examples
    --------
    >>> tail_quantiles(np.arange(1.0, 100.0), 0.0, 0.1)
    (1.0, 90.0)
    """
    ordered, n = np.sort(residuals), len(residuals)
    # The tolerance keeps (n + 1) * tail = 5 from becoming 4.999….
    low = int(np.floor((n + 1) * lower + 1e-9))
    high = int(np.ceil((n + 1) * (1 - upper) - 1e-9))
    return float(ordered[max(low, 1) - 1]), float(ordered[min(high, n) - 1])


def interval_scores(lower: Floats, upper: Floats, observed: Floats, level: float = LEVEL) -> Floats:
    """Return the width of each interval, and what missing it costs.

    Parameters
    ----------
    lower, upper, observed : array of one shape, float64
        In one unit, and lower <= upper.
    level : float
        The share that intervals promise, in (0, 1).

    Returns
    -------
    float64 array of that shape, in that unit, >= 0
        Less is better.

    Notes
    -----
    Gneiting and Raftery, "Strictly Proper Scoring Rules, Prediction, and Estimation", JASA 2007.

    Examples
    --------
    >>> interval_scores(np.zeros(2), np.ones(2), np.array([0.5, 1.1])).round(3).tolist()
    [1.0, 3.0]
    """
    missed = np.maximum(lower - observed, 0) + np.maximum(observed - upper, 0)
    return np.asarray(upper - lower + 2 / (1 - level) * missed, dtype=np.float64)


def calibration(  # noqa: PLR0913, PLR0917 - each with a default that most calls want
    residuals: Floats,
    groupings: Sequence[pd.Series],
    default: tuple[float, float] | None = None,
    outside: float = 1.0,
    level: float = LEVEL,
    smallest: int = MIN_GROUP_ROWS,
) -> Calibration:
    """Return the quantiles of all residuals and of each group that is large enough.

    Parameters
    ----------
    residuals : array of shape (n,), float64, n >= 1
    groupings : sequence of Series of str, each of length n
        Names of groups, from coarse to fine; a row may be in one group of each.
    default : tuple of float, optional
        Quantiles of any other group; those of all residuals without.
    outside : float
        As in ``Calibration``.
    level : float
    smallest : int
        Rows that a group needs for quantiles of its own.

    Examples
    --------
    >>> residuals = np.linspace(-1, 1, 99)
    >>> found = calibration(residuals, [pd.Series(["a"] * 60 + ["b"] * 39)])
    >>> sorted(found.groups), round(found.default[1], 2)
    (['a'], 0.92)
    """
    groups: dict[str, tuple[float, float]] = {}
    for grouping in groupings:
        names = grouping.to_numpy(dtype=str)
        for name, rows in zip(*np.unique(names, return_counts=True), strict=True):
            if rows >= smallest:
                groups[str(name)] = residual_quantiles(residuals[names == name], level)
    return Calibration(level, default or residual_quantiles(residuals, level), groups, outside)


def with_small_groups(
    found: Calibration, residuals: Floats, coarse: pd.Series, fine: pd.Series, fewest: int
) -> Calibration:
    """Return a calibration that also knows the groups too small for quantiles of their own.

    Parameters
    ----------
    found : Calibration
        Of `residuals`, grouped by `coarse` and `fine`.
    residuals : array of shape (n,), float64
    coarse, fine : Series of str, each of length n
        Each group of `fine` lies in one of `coarse`.
    fewest : int
        Rows that a group needs to count at all (>= 1).

    Notes
    -----
    Such a group gets the narrowest interval that holds both its own quantiles and those of its
    coarse group: few rows may widen what many say, and never narrow it. Without, a few runs on a
    new GPU model, where everything is off by more, would be answered with the intervals of the
    models that are known well.

    Examples
    --------
    >>> kinds, models = pd.Series(["a"] * 80), pd.Series(["a/old"] * 60 + ["a/new"] * 20)
    >>> errors = np.append(np.linspace(-0.1, 0.1, 60), np.linspace(-1, 0.05, 20))
    >>> known = calibration(errors, [kinds, models])
    >>> low, high = with_small_groups(known, errors, kinds, models, 10).groups["a/new"]
    >>> low, high == known.groups["a"][1]
    (-1.0, True)
    """
    groups = dict(found.groups)
    inside = dict(zip(fine.to_numpy(dtype=str), coarse.to_numpy(dtype=str), strict=True))
    for name, rows in fine.value_counts().items():
        if rows >= fewest and name not in groups:
            own = residual_quantiles(residuals[(fine == name).to_numpy()], found.level)
            wide = groups.get(inside[str(name)], found.default)
            groups[str(name)] = (min(own[0], wide[0]), max(own[1], wide[1]))
    return replace(found, groups=groups)


def cross_intervals(
    residuals: Floats,
    folds: pd.Series,
    groupings: Sequence[pd.Series] = (),
    level: float = LEVEL,
    smallest: int = MIN_GROUP_ROWS,
) -> tuple[Floats, Floats]:
    """Return, for each row, the residual quantiles that the other folds give.

    What an interval covers cannot be told from the rows that it was calibrated on.

    Parameters
    ----------
    residuals : array of shape (n,), float64
    folds : Series of str, length n
        Two folds at least; the rows of a single one get its own quantiles.
    groupings : sequence of Series of str, each of length n
        As for `calibration`; the finest group that the other folds calibrate counts.
    level, smallest
        As for `calibration`.

    Returns
    -------
    low, high : array of shape (n,), float64

    Examples
    --------
    >>> low, high = cross_intervals(np.array([-1.0, 1.0, -3.0, 3.0]), pd.Series(list("aabb")))
    >>> low.tolist(), high.tolist()
    ([-3.0, -3.0, -1.0, -1.0], [3.0, 3.0, 1.0, 1.0])
    """
    names = folds.to_numpy(dtype=str)
    groups = [grouping.to_numpy(dtype=str) for grouping in groupings]
    bounds = np.empty((len(residuals), 2))
    for name in np.unique(names):
        own = names == name
        others = ~own if not own.all() else own
        known = calibration(
            residuals[others],
            [pd.Series(group[others]) for group in groups],
            level=level,
            smallest=smallest,
        )
        bounds[own] = known.default
        for group in groups:  # from coarse to fine, so that the finest is written last
            for at in np.flatnonzero(own & np.isin(group, list(known.groups))):
                bounds[at] = known.groups[group[at]]
    return bounds[:, 0], bounds[:, 1]


def outside_factor(
    residuals: Floats,
    in_domain: NDArray[np.bool_],
    level: float = LEVEL,
    widest: float = WIDEST_OUTSIDE,
) -> float:
    """Return how much wider intervals must be where the input lies outside what was learnt.

    Parameters
    ----------
    residuals : array of shape (n,), float64
        On held-out rows.
    in_domain : array of shape (n,), bool
    level, widest : float

    Returns
    -------
    float
        Ratio of the `level` quantiles of the absolute residuals, outside to inside, in [1,
        `widest`]; 1.5 where too few rows of either kind were held out to tell.
    """
    size = np.abs(residuals)
    if min(in_domain.sum(), (~in_domain).sum()) < MIN_OUTSIDE_ROWS:
        return DEFAULT_OUTSIDE
    inside, outside = (float(np.quantile(size[rows], level)) for rows in (in_domain, ~in_domain))
    ratio = outside / inside if inside > 0 else DEFAULT_OUTSIDE
    return float(np.clip(ratio, 1.0, widest))
