"""The interval of a wait that past waits speak for, learnt one wait after the other."""

from dataclasses import dataclass, replace
from math import exp, inf, log

from scheduler_client.explaining.wait import WaitEstimate

LEVEL = 0.9
LEAST_WAITS = 30
"""With fewer waits that are over, the interval is what predicted runtimes say."""

FLOOR_S = 60.0
"""Added to both sides of a ratio: whether a second or ten are waited makes no difference."""

FIRST_BOUND = 1.5
"""Where a bound begins: four and a half times more, or less, than was estimated."""


@dataclass(frozen=True, slots=True)
class WaitCorrection:
    """By how much waits differ from their estimates.

    Attributes
    ----------
    low, high : float
        Between these the log ratio of waited to estimated lies, `LEVEL` of the time.
    waits : int
        So many that are over have been learnt from.
    """

    low: float = -FIRST_BOUND
    high: float = FIRST_BOUND
    waits: int = 0


def log_ratio(waited_s: float, estimated_s: float) -> float:
    """Return how much longer was waited than was estimated, as a logarithm.

    Examples
    --------
    >>> log_ratio(240.0, 240.0), round(exp(log_ratio(540.0, 240.0)), 6)
    (0.0, 2.0)
    """
    return log((max(0.0, waited_s) + FLOOR_S) / (estimated_s + FLOOR_S))


def raised(correction: WaitCorrection, step: float, *, is_above: bool) -> WaitCorrection:
    """Return the correction after one more wait has turned out to be above `high`, or not.

    Parameters
    ----------
    step : float
        How fast bounds move (> 0): up by nearly so much for a wait beyond them, and down by a
        twentieth of it for one that is not.

    Notes
    -----
    The quantile tracker of Angelopoulos, Candès and Tibshirani, "Conformal PID Control for Time
    Series Prediction", NeurIPS 2023: adaptive conformal inference (Gibbs and Candès, "Adaptive
    Conformal Inference Under Distribution Shift", NeurIPS 2021) on the bound itself. In the long
    run the share beyond it is right whatever the waits are, as they neither come at random nor
    are alike for long.

    Examples
    --------
    >>> low = raised(WaitCorrection(), 0.2, is_above=False).high
    >>> round(low, 3), round(raised(WaitCorrection(), 0.2, is_above=True).high, 3)
    (1.49, 1.69)
    """
    return replace(correction, high=correction.high + step * (is_above - _tail()))


def lowered(correction: WaitCorrection, step: float, *, is_below: bool) -> WaitCorrection:
    """Return the correction after one more wait is over, and below `low` or not; see `raised`."""
    low = correction.low - step * (is_below - _tail())
    return replace(correction, low=low, waits=correction.waits + 1)


def corrected(estimate: WaitEstimate, correction: WaitCorrection) -> WaitEstimate:
    """Return an estimate with the interval that past waits speak for.

    As it was, with ``calibrated_on`` 0, where there are too few of them, or where it is infinite.

    Examples
    --------
    >>> estimate = WaitEstimate(540.0, 0.0, 90_000.0, 3)
    >>> found = corrected(estimate, WaitCorrection(low=log(0.5), high=log(4), waits=77))
    >>> [round(s) for s in (found.lower_s, found.value_s, found.upper_s)], found.calibrated_on
    ([240, 540, 2340], 77)
    >>> corrected(estimate, WaitCorrection(waits=3)) == estimate
    True
    """
    if correction.waits < LEAST_WAITS or estimate.value_s == inf:
        return estimate
    lower_s, upper_s = (
        max(0.0, (estimate.value_s + FLOOR_S) * exp(bound) - FLOOR_S)
        for bound in (correction.low, max(correction.low, correction.high))
    )
    value_s = min(max(estimate.value_s, lower_s), upper_s)
    return WaitEstimate(value_s, lower_s, upper_s, estimate.jobs_before, correction.waits)


def _tail() -> float:
    return (1 - LEVEL) / 2
