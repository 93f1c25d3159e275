"""How far runtimes lie from what the models say: a distribution, conditional on survival."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from serving.inference.bundle import Calibration, Floats

QUANTILES = "residual_quantiles"
"""Name of the table beside a runtime model; see `residual_table`."""

LEVEL = "level"
DEFAULT = "default"
LEVELS = np.concatenate([[0.0, 0.001, 0.005], np.arange(0.01, 1.0, 0.01), [0.995, 0.999, 1.0]])
ANYWHERE = float(np.log(20.0))
OUTLIVED = 2.0
"""A job that outlived all like it may run as long again (Lindy's rule)."""


@dataclass(frozen=True, slots=True)
class Residuals:
    """Quantiles of log(runtime) - prediction, by group.

    Attributes
    ----------
    level : float
        Nominal coverage of the interval, in (0, 1).
    groups : mapping of str to float64 array of shape (n_levels,)
        Increasing quantiles at ``LEVELS``; must hold ``default``.
    """

    level: float
    groups: Mapping[str, Floats]

    def conditional(
        self, raw: Floats, groups: "pd.Series[str]", elapsed_log: Floats, widen: Floats
    ) -> pd.DataFrame:
        """Return value and bounds of log runtimes that are known to exceed what has elapsed.

        Parameters
        ----------
        raw : float64 array of shape (n,)
            Predicted log runtimes.
        groups : Series of str, length n
            An unknown group is calibrated as ``default``.
        elapsed_log : float64 array of shape (n,)
            Logarithm of the seconds that each job has run; -inf before it starts.
        widen : float64 array of shape (n,), >= 1
            Factor on the residuals' quantiles.

        Returns
        -------
        DataFrame of shape (n, 3), indexed as `groups`
            ``value``, ``lower``, ``upper``, logarithms of seconds; ``value`` is `raw` where
            nothing has elapsed.
        """
        result = pd.DataFrame(np.nan, index=groups.index, columns=["value", "lower", "upper"])
        known = groups.where(groups.isin(list(self.groups)), DEFAULT).to_numpy()
        for name in np.unique(known):
            at = np.flatnonzero(known == name)
            elapsed = (elapsed_log[at] - raw[at]) / widen[at]
            residuals = self._surviving(self.groups[str(name)], elapsed)
            result.iloc[at] = raw[at, None] + widen[at, None] * residuals
        return result

    def _surviving(self, quantiles: Floats, elapsed: Floats) -> Floats:
        tail = (1 - self.level) / 2
        dead = np.interp(elapsed, quantiles, LEVELS, left=0.0, right=1.0)
        centre = np.interp(0.0, quantiles, LEVELS)
        shares = np.array([centre, min(tail, centre), max(1 - tail, centre)])
        residuals = np.interp(dead[:, None] + shares * (1 - dead[:, None]), LEVELS, quantiles)
        residuals[dead == 0, 0] = 0.0
        outlived = elapsed[:, None] + np.log([[(1 + OUTLIVED) / 2, 1.0, OUTLIVED]])
        return np.where(dead[:, None] >= LEVELS[-2], outlived, residuals)


def residual_table(
    residuals: Floats,
    groups: "pd.Series[str]",
    smallest: int = 200,
    weights: Floats | None = None,
) -> pd.DataFrame:
    """Return the quantiles of residuals for all rows, and for each group that is large enough.

    Parameters
    ----------
    residuals : float64 array of shape (n,), n >= 1
        Log runtime observed minus predicted, on jobs that the models were not fitted to.
    groups : Series of str, length n
    smallest : int
        Rows that a group needs for quantiles of its own.
    weights : float64 array of shape (n,), > 0, optional
        How much each row counts; without it, all the same.

    Returns
    -------
    DataFrame of shape (n_levels, 1 + n_groups)
        ``level`` in [0, 1], ``default``, and one column a group.

    Notes
    -----
    Split conformal prediction by group: Vovk, "Conditional validity of inductive conformal
    predictors", ACML 2012. As there, one more residual than was seen may lie anywhere: here a
    factor of twenty to either side, which widens the bounds of a few dozen rows.
    """
    weights = np.ones(len(residuals)) if weights is None else weights
    residuals = np.concatenate([residuals, [-ANYWHERE, ANYWHERE]])
    weights = np.concatenate([weights, [1.0, 1.0]])
    groups = pd.concat([groups, pd.Series([DEFAULT, DEFAULT], dtype="str")], ignore_index=True)
    sizes = groups.value_counts()
    members = {DEFAULT: np.ones(len(residuals), dtype=bool)}
    large = [str(g) for g in sizes[sizes >= smallest].index if g != DEFAULT]
    members |= {group: (groups == group).to_numpy() for group in large}
    columns = {
        name: _increasing(weighted_quantiles(residuals[m], weights[m], LEVELS))
        for name, m in members.items()
    }
    return pd.DataFrame({LEVEL: LEVELS, **columns})


def residuals_from_table(table: pd.DataFrame, calibration: Calibration) -> Residuals:
    """Return the distribution that `residual_table` described."""
    names: Sequence[str] = [name for name in table.columns if name != LEVEL]
    return Residuals(calibration.level, {name: table[name].to_numpy(np.float64) for name in names})


def table_calibration(table: pd.DataFrame, level: float, outside: float) -> Calibration:
    """Return the bounds of a table in the form that every model's spec has."""
    tail = (1 - level) / 2

    def bounds(name: str) -> tuple[float, float]:
        low, high = np.interp([tail, 1 - tail], table[LEVEL], table[name])
        return float(low), float(high)

    groups = {n: bounds(n) for n in table.columns if n not in {LEVEL, DEFAULT}}
    return Calibration(level, bounds(DEFAULT), groups, outside)


def weighted_quantiles(values: Floats, weights: Floats, levels: Floats) -> Floats:
    """Return quantiles of values that count differently; with equal weights, the usual ones.

    Parameters
    ----------
    values, weights : float64 array of shape (n,), n >= 1, weights > 0
    levels : float64 array of shape (m,), in [0, 1]

    Returns
    -------
    float64 array of shape (m,)

    Examples
    --------
    >>> values, half = np.array([1.0, 2.0, 4.0]), np.array([0.5])
    >>> float(weighted_quantiles(values, np.ones(3), half)[0])
    2.0
    >>> float(weighted_quantiles(values, np.array([3.0, 1.0, 1.0]), half)[0].round(3))
    1.667
    """
    order = np.argsort(values, kind="stable")
    before = np.cumsum(weights[order]) - weights[order]
    places = before / before[-1] if before[-1] > 0 else np.zeros(len(before))
    return np.asarray(np.interp(levels, places, values[order]))


def _increasing(quantiles: Floats) -> Floats:
    # Ties would make the inverse ambiguous: spread them by less than a microsecond an hour.
    return np.asarray(np.maximum.accumulate(quantiles) + np.arange(len(quantiles)) * 1e-12)
