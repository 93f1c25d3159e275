"""What the newest finished jobs of a key say, as a few numbers a row."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

RANK_HALF_LIFE = 8.0
"""Jobs after which an older one counts half (of 4, 8 and 16, on the first weeks of DRAC)."""

FLOOR_S = 0.1
"""What a shorter runtime counts as."""

SHORT_LOG = float(np.log(60.0))
NEAR_LIMIT_LOG = float(np.log(0.95))
STATISTICS = ("jobs", "mean", "median", "low", "high", "last", "spread", "short", "timeout", "age")


@dataclass(frozen=True, slots=True)
class Window:
    """The newest finished jobs behind each of n requests, newest first.

    Attributes
    ----------
    runtime_log, ratio_log : float64 array of shape (n, size)
        Natural logarithm of the runtime (s), and of runtime / limit; NaN where there is no job
        or no limit.
    counts : float64 array of shape (n,)
        All finished jobs of the key, also those beyond the window.
    age_s : float64 array of shape (n,)
        Since the newest finished; NaN where there is none.
    """

    runtime_log: Floats
    ratio_log: Floats
    counts: Floats
    age_s: Floats


def window_statistics(window: Window, anchor_log: Floats) -> dict[str, Floats]:
    """Summarise each row's window; newer jobs weigh more.

    Parameters
    ----------
    window : Window
    anchor_log : float64 array of shape (n,)
        First guess of the log runtime of the job that is asked about.

    Returns
    -------
    dict of the names in ``STATISTICS`` to float64 array of shape (n,)
        ``jobs`` is log(1 + count). ``mean``, ``median``, ``low`` (a tenth lie below), ``high`` and
        ``last`` are log runtimes less the anchor. ``spread`` is the standard deviation of log
        runtimes, ``short`` the share that ended within a minute, ``timeout`` the share that
        reached its limit, ``age`` is log(1 + seconds). NaN where the window is empty.
    """
    runtime_log = window.runtime_log
    seen = ~np.isnan(runtime_log)
    weights = 0.5 ** (np.arange(runtime_log.shape[1]) / RANK_HALF_LIFE)
    mean = _mean(runtime_log, seen, weights)
    variance = _mean((runtime_log - mean[:, None]) ** 2, seen, weights)
    limited = ~np.isnan(window.ratio_log)
    ordered = np.sort(runtime_log, axis=1)
    return {
        "jobs": np.log1p(window.counts),
        "mean": mean - anchor_log,
        "median": _ranked(ordered, seen, 0.5) - anchor_log,
        "low": _ranked(ordered, seen, 0.1) - anchor_log,
        "high": _ranked(ordered, seen, 0.9) - anchor_log,
        "last": runtime_log[:, 0] - anchor_log,
        "spread": np.sqrt(variance),
        "short": _mean(runtime_log < SHORT_LOG, seen, weights),
        "timeout": _mean(window.ratio_log > NEAR_LIMIT_LOG, limited, weights),
        "age": np.log1p(np.maximum(window.age_s, 0)),
    }


def _mean(values: Floats | Flags, seen: Flags, weights: Floats) -> Floats:
    total = seen @ weights
    summed = np.where(seen, values, 0.0) @ weights
    return np.where(total > 0, summed / np.where(total > 0, total, 1.0), np.nan)


def _ranked(ordered: Floats, seen: Flags, share: float) -> Floats:
    last = np.maximum(seen.sum(axis=1) - 1, 0)
    places = np.rint(last * share).astype(np.int64)
    return np.asarray(np.take_along_axis(ordered, places[:, None], axis=1)[:, 0])
