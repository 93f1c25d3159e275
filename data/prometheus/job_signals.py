"""The signals of one finished job: of exactly the cards it held, while it was alone on them."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from data.domain import FinishedJob
from data.placement import Stretch, stretches
from data.prometheus.allocations import Allocation, allocation, unshared
from data.prometheus.cleaning import Samples, cleaned
from data.prometheus.config import Reading, TelemetryConfig
from data.prometheus.moments import Interval, Weighted, mean_and_std, together, weighted
from data.prometheus.source import SampleSource, Series, selector

LIGHT_BELOW = 0.8
"""Mean GPU busy of a shared card below which the sharing is light (DeepShare's 80 %)."""
NO_SEGMENTS = "no placement on record"
NO_ALLOCATION = "the scheduler's allocation series does not name its cards"
NO_SAMPLES = "no samples of its cards"
NEVER_ALONE = "never alone"
SEEN_SHARED = "another job was seen on its cards"


class Sharing(StrEnum):
    """Who was on the cards while signals were measured; the two are never mixed."""

    EXCLUSIVE = "exclusive"
    LIGHT = "light"


@dataclass(frozen=True, slots=True)
class JobSignals:
    """What a Prometheus says of one job attempt.

    Attributes
    ----------
    sharing : Sharing
        ``exclusive``: the job's own. ``light``: of the whole card beside a neighbour while the
        card was busy for less than 80 % of the time; an upper bound of the job's own, never a
        baseline and never a profile.
    watched_s : float
        Time in the intervals of this class.
    samples : int
        Of the signal that has most.
    signals : mapping of str to float
        By ``data.domain.PROFILE_COLUMNS``; what was not measured is absent.
    dropped : mapping of reason to int
        Samples that were no reading.
    note : str
        Why there are no signals; empty where there are.
    contradicted_s : float
        Of the time that was alone by the job's own record: how long the intervals lasted in
        which the scheduler showed somebody else on its cards.
    """

    job_id: str
    attempt: int
    sharing: Sharing
    watched_s: float = 0.0
    samples: int = 0
    signals: dict[str, float] = field(default_factory=dict)
    dropped: dict[str, int] = field(default_factory=dict)
    note: str = ""
    contradicted_s: float = 0.0


@dataclass(frozen=True, slots=True)
class _Cards:
    """The samples of a job's cards, by signal."""

    by_signal: Mapping[str, Sequence[Samples]]
    config: TelemetryConfig


def job_signals(
    job: FinishedJob, source: SampleSource, config: TelemetryConfig
) -> tuple[JobSignals, ...]:
    """Return the signals of a finished job: exclusive ones first, light ones if there are any.

    Parameters
    ----------
    job : FinishedJob
        Its segments say when it was alone.
    source : SampleSource
    config : TelemetryConfig

    Returns
    -------
    tuple of JobSignals
        The first is of the exclusive intervals, without signals and with a note where there
        are none. All its cards must be known by UUID, or none is used. Of a gang, means and
        standard deviations are over all cards and all time; the memory peak is the largest of
        any card. An interval in which the scheduler showed somebody else on a card is not
        exclusive, whatever the job's own record says.

    Raises
    ------
    TelemetryError
        If the source cannot be asked now.
    """
    alone, shared = _intervals(job)
    if not job.segments or job.finish_time <= job.start_time:
        return (_nothing(job, NO_SEGMENTS),)
    held = allocation(job, source, config.allocation, config.slack_s)
    if held.uuids.keys() != {segment.card_id for segment in job.segments}:
        return (_nothing(job, NO_ALLOCATION),)
    alone, seen_shared = unshared(alone, held, config.slack_s)
    cards = _Cards(_samples(job, held, source, config), config)
    exclusive = _summary(job, Sharing.EXCLUSIVE, alone, cards)
    if not alone:
        exclusive = _nothing(job, SEEN_SHARED if seen_shared else NEVER_ALONE)
    exclusive = replace(exclusive, contradicted_s=_length_s(seen_shared))
    light = _summary(job, Sharing.LIGHT, [*shared, *seen_shared], cards)
    is_light = light.signals.get("gpu_util_mean", 1.0) < LIGHT_BELOW
    return (exclusive, light) if is_light else (exclusive,)


def _intervals(job: FinishedJob) -> tuple[list[Interval], list[Interval]]:
    """Return when it was alone and when not; what follows without a break is one interval."""
    joined: list[Stretch] = []
    for one in stretches(job):
        last = joined[-1] if joined else None
        if (
            last
            and last.finish_time == one.start_time
            and not (last.neighbour_keys or one.neighbour_keys)
        ):
            joined[-1] = Stretch(last.start_time, one.finish_time)
        else:
            joined.append(one)
    alone = [(s.start_time, s.finish_time) for s in joined if not s.neighbour_keys]
    return alone, [(s.start_time, s.finish_time) for s in joined if s.neighbour_keys]


def _samples(
    job: FinishedJob, held: Allocation, source: SampleSource, config: TelemetryConfig
) -> Mapping[str, Sequence[Samples]]:
    """Return every signal of every card by the first reading that has samples of them."""
    uuids = sorted(set(held.uuids.values()))
    plain = {m for all_ in config.readings.values() for r in all_ for m in r.metrics}
    asked = selector(sorted(plain), {config.uuid_label: uuids, **config.match})
    found: defaultdict[tuple[str, str], list[Series]] = defaultdict(list)
    for one in source.samples(asked, job.start_time, job.finish_time):
        found[one.labels.get("__name__", ""), one.labels.get(config.uuid_label, "")].append(one)
    return {
        signal: _first_with_samples(signal, readings, uuids, _Asking(job, source, config, found))
        for signal, readings in config.readings.items()
    }


@dataclass(frozen=True, slots=True)
class _Asking:
    job: FinishedJob
    source: SampleSource
    config: TelemetryConfig
    found: Mapping[tuple[str, str], Sequence[Series]]

    def series(self, reading: Reading, uuid: str) -> Sequence[Sequence[Series]]:
        """Return the card's series for each metric of a reading, or of its query."""
        if not reading.query:
            return [self.found.get((metric, uuid), ()) for metric in reading.metrics]
        job = self.job
        answer = self.source.steps(reading.query, job.start_time, job.finish_time, reading.step_s)
        label = self.config.uuid_label
        return [[one for one in answer if one.labels.get(label) == uuid]]


def _first_with_samples(
    signal: str, readings: Sequence[Reading], uuids: Sequence[str], asking: _Asking
) -> Sequence[Samples]:
    best: Sequence[Samples] = ()
    for reading in readings:
        cards = [cleaned(signal, reading, asking.series(reading, uuid)) for uuid in uuids]
        if all(len(card.times) for card in cards):
            return cards
        # What was dropped from a reading that gave nothing says why it gave nothing.
        if not best and any(card.dropped for card in cards):
            best = cards
    return best


def _summary(
    job: FinishedJob, sharing: Sharing, intervals: Sequence[Interval], cards: _Cards
) -> JobSignals:
    watched_s = _length_s(intervals)
    signals: dict[str, float] = {}
    dropped: Counter[str] = Counter()
    most = 0
    for name, samples in cards.by_signal.items():
        dropped.update(Counter({k: n for one in samples for k, n in one.dropped.items()}))
        parts = [_within(one, intervals, cards.config) for one in samples]
        if _covers(parts, watched_s, cards.config, len(intervals)):
            found = together(parts)
            signals |= _moments(name, found)
            most = max(most, len(found.values))
    note = "" if signals else NO_SAMPLES
    return JobSignals(
        job.job_id, job.attempt, sharing, watched_s, most, signals, dict(dropped), note
    )


def _within(samples: Samples, intervals: Sequence[Interval], config: TelemetryConfig) -> Weighted:
    return weighted(samples, intervals, config.delay_s, config.longest_gap_s)


def _covers(
    parts: Sequence[Weighted], watched_s: float, config: TelemetryConfig, intervals: int
) -> bool:
    """Whether every card was measured for long enough to speak for the intervals."""
    wanted_s = config.least_coverage * max(0.0, watched_s - intervals * config.delay_s)
    return bool(parts) and all(0 < part.covered_s >= wanted_s for part in parts)


def _moments(name: str, found: Weighted) -> dict[str, float]:
    mean, std = mean_and_std(found)
    moments = {f"{name}_mean": mean} | ({} if std is None else {f"{name}_std": std})
    peak = {"gpu_mem_peak_mib": float(found.values.max())} if name == "gpu_mem_mib" else {}
    return moments | peak


def _length_s(intervals: Sequence[Interval]) -> float:
    return sum((finish - start for start, finish in intervals), 0.0)


def _nothing(job: FinishedJob, note: str) -> JobSignals:
    return JobSignals(job.job_id, job.attempt, Sharing.EXCLUSIVE, note=note)
