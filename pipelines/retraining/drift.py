"""When has a stream of observations changed? A test whose false alarms are bounded, not hoped for.

No reference is fixed: each observation is ranked among all before it, so nothing about its
distribution is assumed or estimated.
"""

from bisect import bisect_left, bisect_right, insort
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

BETS = ((1.0, 1.3), (1.0, 2.0), (1.0, 4.0), (1.0, 8.0), (0.2, 32.0))
"""Stakes ``(w, k)`` of ``1 - w + w * k * rank ** (k - 1)``: a small k waits for small shifts of
all, a large one for large ones; the last for a few observations that are unlike any before."""


@dataclass(frozen=True, slots=True)
class Alarm:
    """Where a stream changed.

    Attributes
    ----------
    at : int
        Position of the observation that raised the alarm.
    since : int
        Position from which the change is most likely, ``since <= at``.
    evidence : float
        The statistic at the alarm, at least the threshold.
    """

    at: int
    since: int
    evidence: float


def ranks(values: ArrayLike, seed: int = 0) -> Floats:
    """Return the rank of each value among itself and all before it, in (0, 1).

    Parameters
    ----------
    values : array-like of shape (n,)
        In the order of events.
    seed : int
        Ties are broken at random, but each time alike.

    Notes
    -----
    Where the order of the values carries no information, the ranks are independent and uniform:
    Vovk, Nouretdinov and Gammerman, "Testing exchangeability on-line", ICML 2003.

    Examples
    --------
    >>> ranks([3.0, 1.0, 2.0, 9.0])[3] > 0.75
    np.True_
    """
    observed = np.asarray(values, dtype=np.float64)
    chance = np.random.default_rng(seed).random(len(observed))
    result, before = np.empty(len(observed)), list[float]()
    for at, value in enumerate(observed):
        below, ties = bisect_left(before, value), bisect_right(before, value)
        result[at] = (below + chance[at] * (ties - below + 1)) / (at + 1)
        insort(before, float(value))
    return result


def first_alarm(values: ArrayLike, threshold: float, seed: int = 0) -> Alarm | None:
    """Return the first rise of a stream, or None.

    Parameters
    ----------
    values : array-like of shape (n,)
        Larger is worse, such as errors; in the order of events.
    threshold : float
        Least mean number of observations between two false alarms, > 1.
    seed : int
        As for `ranks`.

    Notes
    -----
    Shiryaev–Roberts statistic over conformal bets: each factor has mean 1 while nothing changes,
    hence the statistic minus the number of observations is a martingale, and by optional stopping
    the mean time to a false alarm is at least `threshold`. Vovk, Petej, Nouretdinov, Ahlberg,
    Carlsson and Gammerman, "Retrain or not retrain: conformal test martingales for change-point
    detection", COPA 2021; Shin, Ramdas and Rinaldo, "E-detectors: a nonparametric framework for
    sequential change detection", NEJSDS 2023.

    Examples
    --------
    >>> quiet = np.random.default_rng(0).normal(0, 1, 300)
    >>> first_alarm(quiet, 1e4) is None
    True
    >>> found = first_alarm(np.append(quiet, quiet[:50] + 4), 1e4)
    >>> 298 <= found.since <= found.at <= 312
    True
    """
    bets = _bets(ranks(values, seed))
    statistic = np.zeros(len(BETS))
    for at, factors in enumerate(bets):
        statistic = (statistic + 1.0) * factors
        evidence = float(statistic.mean())
        if evidence >= threshold:
            best = np.log(bets[: at + 1, int(statistic.argmax())])
            return Alarm(at, _likeliest_start(best), evidence)
    return None


def _bets(uniform: Floats) -> Floats:
    weights, exponents = np.array(BETS).T
    won = exponents * uniform[:, None] ** (exponents - 1.0)
    return np.asarray(1.0 - weights + weights * won)


def _likeliest_start(logs: Floats) -> int:
    """Return where the sum of `logs` up to the end is largest."""
    return int(len(logs) - 1 - np.cumsum(logs[::-1]).argmax())
