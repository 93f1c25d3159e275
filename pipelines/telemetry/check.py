"""What a Prometheus has of the cards at this moment, before anybody waits for a job to finish."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from data.prometheus.cleaning import Samples, cleaned
from data.prometheus.config import Reading, TelemetryConfig
from data.prometheus.source import SampleSource, Series, selector

WINDOW_S = 300.0


@dataclass(frozen=True, slots=True)
class CheckedSignal:
    """One signal, as it is found now.

    Attributes
    ----------
    reading : Reading, optional
        The first that has samples of any card.
    uuids : frozenset of str
        The cards that have samples.
    dropped : mapping of reason to int
        Samples of any reading that were none.
    """

    reading: Reading | None = None
    uuids: frozenset[str] = frozenset()
    dropped: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Checked:
    """What was found over the last five minutes.

    Attributes
    ----------
    signals : mapping of signal to CheckedSignal
    allocations : int
        Series of the scheduler: one for each card of each job.
    joined : int
        Those whose card has samples of some signal.
    """

    signals: Mapping[str, CheckedSignal]
    allocations: int
    joined: int

    @property
    def is_usable(self) -> bool:
        """Whether a job that finished now would have signals, as far as can be told."""
        measured = any(one.uuids for one in self.signals.values())
        return measured and (self.joined > 0 or not self.allocations)


def checked_cards(source: SampleSource, config: TelemetryConfig, now: float) -> Checked:
    """Return which signals there are, of how many cards, and whether jobs can be joined.

    Raises
    ------
    TelemetryError
        If the source cannot be asked now.
    """
    names = {m for readings in config.readings.values() for r in readings for m in r.metrics}
    series = source.samples(selector(sorted(names), config.match), now - WINDOW_S, now)
    looking = _Looking(source, config, now, series)
    signals = {name: looking.signal(name, found) for name, found in config.readings.items()}
    labels = config.allocation
    held = source.samples(selector([labels.metric], {}), now - WINDOW_S, now)
    known = frozenset[str]().union(*(one.uuids for one in signals.values()))
    joined = sum(one.labels.get(labels.uuid) in known for one in held)
    return Checked(signals, len(held), joined)


def checked_text(found: Checked) -> str:
    """Return it as lines for people."""
    lines = [_line(name, one) for name, one in found.signals.items()]
    jobs = f"{found.allocations} cards of running jobs, {found.joined} of them joined by UUID"
    if not found.allocations:
        jobs = "no running job: is the scheduler's /metrics scraped? otherwise start one and see"
    return "\n".join([*lines, f"{'allocations':<18}{jobs}"])


@dataclass(frozen=True, slots=True)
class _Looking:
    source: SampleSource
    config: TelemetryConfig
    now: float
    series: Sequence[Series]

    def signal(self, name: str, readings: Sequence[Reading]) -> CheckedSignal:
        dropped: Counter[str] = Counter()
        for reading in readings:
            cards = self._cards(name, reading)
            for samples in cards.values():
                dropped.update(samples.dropped)
            uuids = frozenset(uuid for uuid, samples in cards.items() if len(samples.times))
            if uuids:
                return CheckedSignal(reading, uuids, dict(dropped))
        return CheckedSignal(dropped=dict(dropped))

    def _cards(self, signal: str, reading: Reading) -> dict[str, Samples]:
        metrics = [[one] for one in reading.metrics] or [[]]
        found = self.series
        if reading.query:
            since = self.now - WINDOW_S
            found = self.source.steps(reading.query, since, self.now, reading.step_s)
        by_uuid: defaultdict[str, list[list[Series]]] = defaultdict(lambda: [[] for _ in metrics])
        for one in found:
            for place, names in enumerate(metrics):
                if reading.query or one.labels.get("__name__") in names:
                    by_uuid[one.labels.get(self.config.uuid_label, "")][place].append(one)
        return {uuid: cleaned(signal, reading, parts) for uuid, parts in by_uuid.items() if uuid}


def _line(name: str, found: CheckedSignal) -> str:
    dropped = "".join(f", {count} samples {why}" for why, count in sorted(found.dropped.items()))
    if found.reading is None:
        return f"{name:<18}none{dropped}"
    origin = found.reading.query or " + ".join(found.reading.metrics)
    return f"{name:<18}{len(found.uuids)} cards, {origin} ({found.reading.unit}){dropped}"
