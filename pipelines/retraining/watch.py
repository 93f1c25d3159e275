"""What the champions answer of jobs that finish, stream by stream, and which stream has changed.

A stream is one signal (``error``, ``coverage``, ``input``) of all jobs, or of those of one GPU
model, family or user.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from pipelines.retraining.drift import Floats, first_alarm

MONTH_S = 30 * 86_400.0
EVERYTHING = "all"


@dataclass(frozen=True, slots=True)
class Observations:
    """Finished jobs that no champion had learnt from, and how champions answered them.

    A signal is NaN where it was not observed.

    Attributes
    ----------
    sequences : int64 array of shape (n,)
        Of the job log, ascending.
    finish_time : float64 array of shape (n,), seconds since 1970, UTC
    signals : mapping of str to float64 array of shape (n,)
        Larger is worse: ``error``, ``coverage`` (1 where the interval missed) and ``input`` (1
        where the job is of a kind that was never seen), ``slower`` and ``faster`` (log of the
        time over what is usual for its key, and its negative).
    labels : mapping of str to str array of shape (n,)
        Such as ``gpu_model``, ``family`` and ``user``.
    batches : array of shape (n,)
        Equal for rows that are one piece of evidence; their mean is one observation.
    """

    sequences: NDArray[np.int64]
    finish_time: Floats
    signals: Mapping[str, Floats]
    labels: Mapping[str, NDArray[np.str_]] = field(default_factory=dict)
    batches: NDArray[np.generic] | None = None

    def __len__(self) -> int:
        return len(self.sequences)

    def where(self, mask: NDArray[np.bool_]) -> "Observations":
        """Return the rows where a mask of shape (n,) holds."""
        return Observations(
            self.sequences[mask],
            self.finish_time[mask],
            {name: values[mask] for name, values in self.signals.items()},
            {name: values[mask] for name, values in self.labels.items()},
            None if self.batches is None else self.batches[mask],
        )

    def merged(self) -> "Observations":
        """Return one row a batch, where its first row was, with the means of the signals."""
        if self.batches is None or not len(self):
            return self
        _, first, which = np.unique(self.batches, return_index=True, return_inverse=True)
        means = {name: _means(values, which) for name, values in self.signals.items()}
        order = np.argsort(first)
        at = first[order]
        return Observations(
            self.sequences[at],
            self.finish_time[at],
            {name: values[order] for name, values in means.items()},
            {name: values[at] for name, values in self.labels.items()},
        )


@dataclass(frozen=True, slots=True)
class WatchRules:
    """How sure a change has to be.

    Attributes
    ----------
    false_alarms_a_month : float
        Most of them, over all streams of one lesson together, while nothing changes. There are
        four lessons, so that the default is one a month in all.
    fewest : int
        Observations below which a stream is not looked at, and does not count.
    fewest_a_month : float
        A stream that has shown less of its pace yet is taken to be this quick.
    """

    false_alarms_a_month: float = 0.25
    fewest: int = 12
    fewest_a_month: float = 100.0


@dataclass(frozen=True, slots=True)
class Drift:
    """A stream that changed.

    Attributes
    ----------
    stream : str
        Such as ``error of all`` or ``coverage of gpu_model=A100``.
    sequence, since : int
        Job log entries of the observation that raised the alarm, and of the likeliest first one.
    rows : int
        Observations of the stream from the likeliest first one on.
    evidence, threshold : float
        As in ``drift.Alarm``; the larger their ratio, the surer.
    """

    stream: str
    sequence: int
    since: int
    rows: int
    evidence: float
    threshold: float

    @property
    def reason(self) -> str:
        """One sentence for a log."""
        odds = f"evidence {self.evidence:.3g}, wanted {self.threshold:.3g}"
        return f"{self.stream} changed {self.rows} observations ago, at entry {self.since}: {odds}"


def drifts(observations: Observations, rules: WatchRules | None = None) -> list[Drift]:
    """Return the streams that changed, the earliest alarm first.

    Notes
    -----
    Each of K streams has a mean time to a false alarm of at least K times what it observes in a
    month, so all of them together raise at most ``false_alarms_a_month``.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> errors = np.append(rng.random(200), rng.random(50) + 1)
    >>> day = Observations(np.arange(250), np.arange(250) * 3600.0, {"error": errors})
    >>> [found] = drifts(day)
    >>> found.stream, 195 <= found.since <= 202, found.sequence < 225
    ('error of all', True, True)
    """
    rules = rules or WatchRules()
    streams = dict(_streams(observations.merged(), rules.fewest))
    found = (
        _drift(name, *stream, len(streams) / rules.false_alarms_a_month, rules)
        for name, stream in streams.items()
    )
    return sorted((d for d in found if d), key=lambda d: (d.sequence, -d.evidence / d.threshold))


def _streams(seen: Observations, fewest: int) -> Iterator[tuple[str, tuple[Observations, str]]]:
    parts = {EVERYTHING: seen}
    for label, names in seen.labels.items():
        values, counts = np.unique(names, return_counts=True)
        # One value for everything would be the same stream again.
        often = values[(counts >= fewest) & (counts < len(seen))]
        parts |= {f"{label}={value}": seen.where(names == value) for value in often}
    for part, rows in parts.items():
        for signal in seen.signals:
            of_part = signal != "input" or part == EVERYTHING
            known = rows.where(~np.isnan(rows.signals[signal]))
            if of_part and len(known) >= fewest:
                yield f"{signal} of {part}", (known, signal)


def _drift(
    name: str, rows: Observations, signal: str, share: float, rules: WatchRules
) -> Drift | None:
    threshold = share * max(_a_month(rows.finish_time), rules.fewest_a_month)
    alarm = first_alarm(rows.signals[signal], threshold, seed=crc32(name.encode()))
    if alarm is None:
        return None
    sequences = rows.sequences
    return Drift(
        stream=name,
        sequence=int(sequences[alarm.at]),
        since=int(sequences[alarm.since]),
        rows=len(sequences) - alarm.since,
        evidence=alarm.evidence,
        threshold=threshold,
    )


def _means(values: Floats, which: NDArray[np.intp]) -> Floats:
    """Return the mean of what is known in each batch, NaN where nothing is."""
    known = ~np.isnan(values)
    sums = np.bincount(which, weights=np.where(known, values, 0.0))
    counts = np.bincount(which, weights=known)
    return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)


def _a_month(finish_time: Floats) -> float:
    """Return how many observations a month the stream has shown so far."""
    span_s = float(np.ptp(finish_time))
    return len(finish_time) / max(span_s, 86_400.0) * MONTH_S
