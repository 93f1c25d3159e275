"""Samples of one card as plain numbers in our units; what is no reading is missing, and counted."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from data.domain import RATIO_SIGNALS
from data.importers.units import units_of
from data.prometheus.config import Reading
from data.prometheus.source import Floats, Series

FULLEST = 1.01
"""A ratio just above 1 is rounding, and taken for 1; more is none (SM active on MIG)."""
MOST = {"pcie_bytes_per_s": 1e12, "gpu_mem_mib": 1e8}
"""Far above any card. DCGM's blanks lie above: 2**31 - 16, 2**47 and 2**63 - 16, and a few more."""
BLANKS = (float(2**31 - 16), float(2**47), float(2**63 - 16))
BLANK_WIDTH = 16.0


@dataclass(frozen=True, slots=True)
class Samples:
    """One signal of one card.

    Attributes
    ----------
    times : array of shape (n,), float64
        Seconds since 1970, UTC; rising.
    values : array of shape (n,), float64
        In the signal's unit, without NaN.
    dropped : mapping of reason to int
        Samples that were no reading: ``not a number``, ``blank``, ``out of range``, ``reset``.
    """

    times: Floats
    values: Floats
    dropped: Mapping[str, int] = field(default_factory=dict)


def cleaned(signal: str, reading: Reading, by_metric: Sequence[Sequence[Series]]) -> Samples:
    """Return one signal of one card.

    Parameters
    ----------
    signal : str
        One of ``data.domain.SIGNALS``.
    reading : Reading
        Says unit and kind.
    by_metric : sequence of sequence of Series
        All series of the card for each of the reading's metrics. Several of one metric are
        copies of one value: dcgm-exporter repeats a shared card's value for each of its pods.
        Where they differ at one moment, the largest counts.

    Returns
    -------
    Samples
        Where several metrics are added up, only moments that all of them have.

    Examples
    --------
    >>> one = Series({}, np.array([0.0, 15.0, 30.0]), np.array([50.0, 2.0**31 - 16, 300.0]))
    >>> found = cleaned("gpu_util", Reading("percent", ("m",)), [[one]])
    >>> found.values.tolist(), found.dropped
    ([0.5], {'blank': 1, 'out of range': 1})
    """
    dropped: Counter[str] = Counter()
    parts = [_metric(signal, reading, series, dropped) for series in by_metric]
    times, values = _added(parts)
    high = 1.0 if signal in RATIO_SIGNALS else MOST[signal]
    slack = FULLEST if signal in RATIO_SIGNALS else 1.0
    plausible = (values >= 0) & (values <= high * slack)
    dropped["out of range"] += int((~plausible).sum())
    kept = np.minimum(values[plausible], high)
    return Samples(times[plausible], kept, {k: n for k, n in sorted(dropped.items()) if n})


def is_blank(values: Floats) -> NDArray[np.bool_]:
    """Return which values are DCGM's words for "not available", in any of its number types.

    Examples
    --------
    >>> is_blank(np.array([2147483632.0, 140737488355328.0, 9223372036854775794.0, 100.0])).tolist()
    [True, True, True, False]
    """
    blank = np.zeros(values.shape, dtype=np.bool_)
    for lowest in BLANKS:
        blank |= (values >= lowest) & (values <= lowest + BLANK_WIDTH)
    return blank


def _metric(
    signal: str, reading: Reading, series: Sequence[Series], dropped: Counter[str]
) -> tuple[Floats, Floats]:
    """Return one metric of one card, its copies united."""
    factor = units_of(f"{signal}_mean")[reading.unit]
    found = [_one(reading, one, dropped) for one in series]
    times = np.concatenate([np.empty(0), *(part[0] for part in found)])
    values = np.concatenate([np.empty(0), *(part[1] for part in found)])
    moments, where = np.unique(times, return_inverse=True)
    largest = np.full(len(moments), -np.inf)
    np.maximum.at(largest, where, values)
    return moments, largest * factor


def _one(reading: Reading, series: Series, dropped: Counter[str]) -> tuple[Floats, Floats]:
    is_number = np.isfinite(series.values)
    blank = is_blank(series.values)
    dropped["not a number"] += int((~is_number).sum())
    dropped["blank"] += int(blank.sum())
    kept = is_number & ~blank
    times, values = series.times[kept], series.values[kept]
    return _increases(times, values, dropped) if reading.kind == "counter" else (times, values)


def _increases(times: Floats, values: Floats, dropped: Counter[str]) -> tuple[Floats, Floats]:
    """Return the increase a second up to each sample; none where the counter began anew."""
    grown, seconds = np.diff(values), np.diff(times)
    # What was counted between the last sample and the reset is not known.
    dropped["reset"] += int((grown < 0).sum())
    kept = grown >= 0
    return times[1:][kept], grown[kept] / seconds[kept]


def _added(parts: Sequence[tuple[Floats, Floats]]) -> tuple[Floats, Floats]:
    times, values = parts[0]
    for more_times, more in parts[1:]:
        times, left, right = np.intersect1d(times, more_times, return_indices=True)
        values = values[left] + more[right]
    return times, values
