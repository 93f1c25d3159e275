"""How far beyond what the memory model learnt a question lies, and how wide its bounds are."""

from dataclasses import dataclass, fields

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from features.memory_terms import EXACT, KINSHIPS
from serving.inference.bundle import Bundle, Floats

BEYOND_TABLE = "beyond"
UNSEEN = "unseen"
BEYOND = (*KINSHIPS, UNSEEN)
"""The rows of that table."""

MOST_SHARE, MOST_LOG_RATIO = 0.6, 3.0
WIDEST = np.log(8.0)  # of a stranger: a factor of eight says no more than that nothing is known
NARROWEST = 0.01  # half an interval on a logarithm: no constant is known better


@dataclass(frozen=True, slots=True)
class Widening:
    """How bounds grow with the distance from what was learnt, before calibration.

    Attributes
    ----------
    per_share : float, >= 0
        By so many times where all of the answer is extrapolated.
    per_log_ratio : float, >= 0
        And by so many for each factor of e beyond the learnt range.
    """

    per_share: float = 1.5
    per_log_ratio: float = 0.5

    def scale(self, share: Floats, log_ratio: Floats) -> Floats:
        """Return how much wider intervals are than those of rows within; shape (n,), >= 1."""
        by_share = self.per_share * np.minimum(share, MOST_SHARE)
        return 1 + by_share + self.per_log_ratio * np.minimum(log_ratio, MOST_LOG_RATIO)


BEFORE = Widening(3.0, 1.0)
"""Of versions that do not say."""


@dataclass(frozen=True, slots=True)
class Distance:
    """How far each row lies beyond what was learnt.

    Attributes
    ----------
    within : array of shape (n,), bool
        Whether it does not: every known term lies in the range of the row's own groups.
    share : array of shape (n,), float64, >= 0
        Of the answer, what the model adds for what lies beyond: its difference to the answer for
        the nearest learnt row.
    log_ratio : array of shape (n,), float64, >= 0
        Logarithm of the largest ratio by which a term lies beyond its range.
    unseen : array of shape (n,), bool
        Whether it has a part that no learnt row of its groups had at all, such as a second GPU.
    """

    within: NDArray[np.bool_]
    share: Floats
    log_ratio: Floats
    unseen: NDArray[np.bool_]


def distance(bundle: Bundle, rows: pd.DataFrame, answers: Floats) -> Distance:
    """Return how far rows lie beyond what `bundle` learnt.

    Parameters
    ----------
    bundle : Bundle
        Of ``colocast-memory``.
    rows : DataFrame of shape (n, n_features)
    answers : array of shape (n,), float64
        What the model says of `rows` (MiB, > 0).

    Notes
    -----
    Two measures count: the share of the answer that is extrapolated, and the largest ratio, for
    terms of which the model has learnt no effect. Widening intervals by a measured difficulty:
    Papadopoulos, Vovk and Gammerman, "Regression Conformal Prediction with Nearest Neighbours",
    JAIR 2011.
    """
    names = list(bundle.spec.features)
    values = rows[names].to_numpy(np.float64)
    low = np.array([bundle.spec.low.get(name, np.nan) for name in names])
    high = np.array([bundle.spec.high.get(name, np.nan) for name in names])
    known = ~np.isnan(values)
    within = np.asarray((((values >= low) & (values <= high)) | ~known).all(axis=1))
    share, ratio = np.zeros(len(rows)), np.zeros(len(rows))
    outside = np.flatnonzero(~within)
    if len(outside):
        asked = values[outside]
        nearest = np.clip(asked, np.nan_to_num(low), np.nan_to_num(high))
        change = answers[outside] - bundle.predict(nearest)
        share[outside] = np.abs(change) / answers[outside]
        ratio[outside] = _log_ratio(asked, low, high)
    unseen = ((values > 0) & (np.isnan(high) | (high <= 0))).any(axis=1)
    return Distance(within, share, ratio, unseen)


def effective_kinship(near: pd.Series, far: Distance) -> pd.Series:
    """Return the kinship whose bounds count: of what was never seen nothing near is known."""
    return near.mask(far.unseen, UNSEEN)


def widened(
    bundle: Bundle, quantiles: Floats, near: pd.Series, far: Distance
) -> tuple[Floats, NDArray[np.bool_]]:
    """Return quantiles as wide as rows beyond what was learnt need, and which rows are within.

    Parameters
    ----------
    bundle : Bundle
        Its table ``beyond`` holds, for each kinship, the calibrated quantiles of residuals that
        were divided by what `unit_widths` gives, and the ``Widening`` that this was done with;
        without it the factor ``outside`` counts.
    quantiles : array of shape (n, 2), float64
        Lower and upper quantile of each row, were it within.
    near : Series of str, length n
        Kinship of each row.
    far : Distance

    Returns
    -------
    quantiles : array of shape (n, 2), float64
        Never narrower than the given ones.
    within : array of shape (n,), bool
    """
    within = far.within & (near == EXACT).to_numpy()
    table = bundle.tables.get(BEYOND_TABLE)
    if table is None:
        factor = np.where(within, 1.0, bundle.spec.calibration.outside)
        return quantiles * factor[:, None], within
    near = effective_kinship(near, far)
    factors = table.set_index("kinship")[["lower", "upper"]].reindex(list(BEYOND))
    wide = factors.loc[near.to_numpy()].to_numpy(np.float64)
    scale = known_widening(table).scale(far.share, far.log_ratio)
    wide = wide * unit_widths(quantiles, near, scale)[:, None]
    strange = (near != EXACT).to_numpy()[:, None]
    wide = np.where(strange, np.clip(wide, -WIDEST, WIDEST), wide)
    low = np.where(within, quantiles[:, 0], np.minimum(quantiles[:, 0], wide[:, 0]))
    high = np.where(within, quantiles[:, 1], np.maximum(quantiles[:, 1], wide[:, 1]))
    return np.column_stack([low, high]), within


def known_widening(table: pd.DataFrame) -> Widening:
    """Return the widening in a table ``beyond``, that of older versions where it has none.

    Examples
    --------
    >>> known_widening(pd.DataFrame({"per_share": [1.0], "per_log_ratio": [2.0]}))
    Widening(per_share=1.0, per_log_ratio=2.0)
    """
    names = [field.name for field in fields(Widening)]
    if not set(names) <= set(table.columns):
        return BEFORE
    return Widening(*(float(table[name].iloc[0]) for name in names))


def unit_widths(quantiles: Floats, near: pd.Series, scale: Floats) -> Floats:
    """Return by what residuals beyond are divided before their quantiles are taken.

    Of rows whose exact kin was learnt: half their interval within, times the distance. Of others
    nothing within is known, so the distance alone.
    """
    half = np.maximum(np.abs(quantiles).max(axis=1), NARROWEST)
    return np.where((near == EXACT).to_numpy(), half, 1.0) * scale


def _log_ratio(values: Floats, low: Floats, high: Floats) -> Floats:
    """Return by how many factors of e the farthest term of each row lies beyond its range."""
    with np.errstate(divide="ignore", invalid="ignore"):
        over = np.where(values > high, np.log(values / high), 0.0)
        under = np.where((values < low) & (values > 0), np.log(low / values), 0.0)
    unseen = ~np.isnan(values) & (values > 0) & np.isnan(high)
    ratios = np.where(unseen, np.inf, np.fmax(over, under))
    return np.asarray(np.nan_to_num(ratios, nan=0.0, posinf=MOST_LOG_RATIO).max(axis=1))
