"""Mean and spread over intervals, each sample weighted by the time that it stands for."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from data.prometheus.cleaning import Samples
from data.prometheus.source import Floats

Interval = tuple[float, float]
"""Start and finish, seconds since 1970, UTC."""
FEWEST_FOR_SPREAD = 2
USUAL_GAPS = 2.0


@dataclass(frozen=True, slots=True)
class Weighted:
    """Samples within intervals.

    Attributes
    ----------
    seconds, values : arrays of shape (n,), float64
        What each sample stands for (> 0), and its value.
    """

    seconds: Floats
    values: Floats

    @property
    def covered_s(self) -> float:
        """Time that the samples stand for."""
        return float(self.seconds.sum())


def weighted(
    samples: Samples, intervals: Sequence[Interval], delay_s: float, longest_gap_s: float
) -> Weighted:
    """Return the samples that lie in `intervals`, with the time before each that it stands for.

    Parameters
    ----------
    samples : Samples
    intervals : sequence of Interval
    delay_s : float
        At the beginning of each interval so much is left out: a sample there may show what was
        before.
    longest_gap_s : float
        No sample stands for more, nor for more than twice the median distance between samples:
        in a gap nothing was measured, and nothing is filled in.

    Examples
    --------
    >>> samples = Samples(np.array([10.0, 20.0, 30.0, 90.0]), np.array([0.0, 1.0, 1.0, 0.5]))
    >>> found = weighted(samples, [(0.0, 100.0)], delay_s=0.0, longest_gap_s=30.0)
    >>> found.seconds.tolist(), found.covered_s
    ([10.0, 10.0, 10.0, 20.0], 50.0)
    """
    usual_s = float(np.median(np.diff(samples.times))) if len(samples.times) > 1 else np.inf
    most_s = min(longest_gap_s, USUAL_GAPS * usual_s)
    seconds, values = [np.empty(0)], [np.empty(0)]
    for start, finish in intervals:
        first = start + delay_s
        within = (samples.times > first) & (samples.times <= finish)
        times = samples.times[within]
        if len(times):
            before = np.concatenate([[first], times[:-1]])
            seconds.append(np.minimum(times - before, most_s))
            values.append(samples.values[within])
    return Weighted(np.concatenate(seconds), np.concatenate(values))


def together(cards: Sequence[Weighted]) -> Weighted:
    """Return the samples of several cards as those of one."""
    return Weighted(
        np.concatenate([card.seconds for card in cards]),
        np.concatenate([card.values for card in cards]),
    )


def mean_and_std(found: Weighted) -> tuple[float, float | None]:
    """Return the mean over time and the standard deviation; of one sample there is none.

    Parameters
    ----------
    found : Weighted, not empty

    Examples
    --------
    >>> mean_and_std(Weighted(np.array([3.0, 1.0]), np.array([0.0, 1.0])))
    (0.25, 0.4330127018922193)
    """
    mean = float(np.average(found.values, weights=found.seconds))
    if len(found.values) < FEWEST_FOR_SPREAD:
        return mean, None
    return mean, float(np.sqrt(np.average((found.values - mean) ** 2, weights=found.seconds)))
