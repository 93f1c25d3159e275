"""How good runtime estimates are; the same numbers for a model and for a baseline."""

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from features.window_statistics import FLOOR_S
from pipelines.metrics import abstention

Floats = NDArray[np.float64]
Metrics = dict[str, float | int | None]


def runtime_metrics(runtime_s: Floats, estimates: pd.DataFrame) -> Metrics:
    """Return flat metrics of estimated against measured runtimes.

    Parameters
    ----------
    runtime_s : float64 array of shape (n,), >= 0
    estimates : DataFrame of shape (n, >= 1)
        ``value`` (s, > 0) and, where there are intervals, ``lower`` and ``upper`` (s).

    Returns
    -------
    dict
        ``n``, ``r2``, ``r2_log`` (of natural logarithms), ``mae`` (s), ``within_2x`` and
        ``under_rate`` (measured above ``upper``, or above ``value`` without intervals),
        ``coverage_90`` and ``width_90_median`` (upper / lower), and the keys of
        ``pipelines.metrics.abstention`` (errors of the logarithm). None where undefined.
    """
    value = estimates["value"].to_numpy(np.float64)
    measured = np.maximum(runtime_s, FLOOR_S)
    log_error = np.log(measured) - np.log(value)
    metrics: Metrics = {
        "n": len(measured),
        "r2": r2(measured, value),
        "r2_log": r2(np.log(measured), np.log(value)),
        "mae": _mean(np.abs(measured - value)),
        "within_2x": _mean(np.abs(log_error) <= np.log(2)),
        "under_rate": _mean(measured > value),
        "coverage_90": None,
        "width_90_median": None,
        "in_domain_share": None,
        "error_inside": None,
        "error_outside": None,
    }
    if "upper" not in estimates.columns:
        return metrics
    lower, upper = (estimates[name].to_numpy(np.float64) for name in ("lower", "upper"))
    return metrics | {
        "under_rate": _mean(measured > upper),
        "coverage_90": _mean((measured >= lower) & (measured <= upper)),
        "width_90_median": float(np.median(upper / lower)) if len(upper) else None,
        **abstention(np.abs(log_error), estimates["in_domain"].to_numpy(np.bool_)),
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


def _mean(values: Floats | NDArray[np.bool_]) -> float | None:
    return float(np.mean(values)) if len(values) else None
