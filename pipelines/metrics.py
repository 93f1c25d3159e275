"""How good estimates are; the same numbers for a model and for a baseline."""

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import rankdata

from serving.inference.bundle import Floats

Metrics = dict[str, float | int | None]
TINY = 1e-9


def estimate_metrics(observed: Floats, estimates: pd.DataFrame, slack: float = 0.0) -> Metrics:
    """Return flat metrics of estimated against observed values.

    Parameters
    ----------
    observed : array of shape (n,), float64, > 0
    estimates : DataFrame of shape (n, >= 3)
        ``value``, ``lower`` and ``upper``, in the unit of `observed`.
    slack : float
        How far beyond the upper bound a row may lie before it counts as under-estimated, as a
        share of the bound.

    Returns
    -------
    dict
        ``n``; ``r2`` and ``r2_log`` (of natural logarithms); ``mae`` (unit of `observed`);
        ``relative_error_median``; ``within_2x`` (share between half and twice the estimate);
        ``rank_correlation`` (Spearman); ``under_rate`` (share above the upper bound and its
        slack); ``under_10_rate`` (share more than a tenth above the value); ``coverage_90``
        (share inside the interval) and ``width_90_median`` (median of (upper - lower) / value).
        None where undefined.

    Examples
    --------
    >>> estimates = pd.DataFrame({"value": [1.0, 2.0], "lower": [0.9, 1.0], "upper": [1.1, 2.5]})
    >>> found = estimate_metrics(np.array([1.0, 3.0]), estimates)
    >>> found["mae"], found["under_rate"], found["coverage_90"], found["r2"]
    (0.5, 0.5, 0.5, 0.5)
    """
    value, lower, upper = (
        estimates[name].to_numpy(np.float64) for name in ("value", "lower", "upper")
    )
    positive = np.maximum(value, TINY)
    error = np.abs(observed - value)
    return {
        "n": len(observed),
        "r2": r2(observed, value),
        "r2_log": r2(np.log(np.maximum(observed, TINY)), np.log(positive)),
        "mae": _mean(error),
        "relative_error_median": _median(error / np.maximum(observed, TINY)),
        "within_2x": _mean((observed <= 2 * value) & (observed >= value / 2)),
        "rank_correlation": rank_correlation(observed, value),
        "under_rate": _mean(observed > upper * (1 + slack)),
        "under_10_rate": _mean(observed > 1.1 * value),
        "coverage_90": _mean((observed >= lower) & (observed <= upper)),
        "width_90_median": _median((upper - lower) / positive),
    }


def r2(observed: Floats, predicted: Floats) -> float | None:
    """Return the coefficient of determination, or None where nothing varies.

    Examples
    --------
    >>> r2(np.array([1.0, 2.0, 3.0]), np.array([1.0, 2.0, 2.0]))
    0.5
    """
    total = float(((observed - observed.mean()) ** 2).sum()) if len(observed) else 0.0
    return 1 - float(((observed - predicted) ** 2).sum()) / total if total > 0 else None


def rank_correlation(observed: Floats, predicted: Floats) -> float | None:
    """Return Spearman's correlation, or None where either does not vary.

    Examples
    --------
    >>> rank_correlation(np.array([1.0, 2.0, 9.0]), np.array([0.1, 0.2, 0.3]))
    1.0
    """
    ranks = [rankdata(values) for values in (observed, predicted)]
    if len(observed) < 2 or any(np.ptp(rank) == 0 for rank in ranks):
        return None
    return float(np.corrcoef(*ranks)[0, 1].round(12))


def abstention(error: Floats, in_domain: NDArray[np.bool_]) -> Metrics:
    """Return how many rows lie inside what was learnt, and how large errors are there and beyond.

    Parameters
    ----------
    error : array of shape (n,), float64, >= 0
        Of each row, in whatever unit.
    in_domain : array of shape (n,), bool

    Returns
    -------
    dict
        ``in_domain_share`` in [0, 1], ``error_inside`` and ``error_outside`` (means, in the unit
        of `error`); None where there is no such row.

    Examples
    --------
    >>> abstention(np.array([0.1, 0.3, 0.8]), np.array([True, True, False]))
    {'in_domain_share': 0.6666666666666666, 'error_inside': 0.2, 'error_outside': 0.8}
    """
    return {
        "in_domain_share": _mean(in_domain),
        "error_inside": _mean(error[in_domain]),
        "error_outside": _mean(error[~in_domain]),
    }


def best_baseline(observed: Floats, baselines: dict[str, Floats]) -> Metrics:
    """Return R² of each trivial baseline, and the best of them as ``baseline_r2``.

    Parameters
    ----------
    observed : array of shape (n,), float64
    baselines : dict of name to array of shape (n,), float64

    Returns
    -------
    dict
        ``baseline_<name>_r2`` each, and ``baseline_r2``; None where undefined.

    Examples
    --------
    >>> best_baseline(np.array([1.0, 3.0]), {"constant": np.array([2.0, 2.0])})
    {'baseline_r2': 0.0, 'baseline_constant_r2': 0.0}
    """
    scores = {f"baseline_{name}_r2": r2(observed, values) for name, values in baselines.items()}
    known = [score for score in scores.values() if score is not None]
    return {"baseline_r2": max(known, default=None), **scores}


def _mean(values: Floats | NDArray[np.bool_]) -> float | None:
    return float(np.mean(values)) if len(values) else None


def _median(values: Floats) -> float | None:
    return float(np.median(values)) if len(values) else None
