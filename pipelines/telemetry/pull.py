"""Looks up the signals of jobs that finished, and keeps them beside the job log."""

import logging
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from threading import Event

from data.domain import FinishedJob
from data.errors import JobLogError, TelemetryError
from data.joblog_signals import SignalTable
from data.prometheus.config import TelemetryConfig
from data.prometheus.job_signals import JobSignals, Sharing, job_signals
from data.prometheus.source import SampleSource

LOG = logging.getLogger("colocast.telemetry")
LINE = "%(asctime)s %(levelname)s %(message)s"
PAGE = 200
LONGEST_PAUSE_S = 60.0


@dataclass(frozen=True, slots=True)
class Pulled:
    """What one pass found.

    Attributes
    ----------
    measured, light : int
        Job attempts with signals of their own; those with signals under light sharing.
    later : int
        Attempts that have just ended: their last samples may not have arrived.
    without : mapping of note to int
        Attempts without signals of their own, and why.
    dropped : mapping of reason to int
        Samples that were no readings.
    """

    measured: int = 0
    light: int = 0
    later: int = 0
    without: Mapping[str, int] = field(default_factory=dict)
    dropped: Mapping[str, int] = field(default_factory=dict)

    def text(self) -> str:
        """Return it as lines for people."""
        lines = [
            f"{self.measured} jobs measured, {self.light} under light sharing, {self.later} later"
        ]
        lines += [f"{count:>7} without signals: {note}" for note, count in self.without.items()]
        lines += [f"{count:>7} samples dropped: {why}" for why, count in self.dropped.items()]
        if self.dropped.get("out of range"):
            lines.append("        (out of range: is a percent configured as a ratio?)")
        return "\n".join(lines)


def log_to_stderr() -> None:
    """Send the events to stderr, one a line, beginning with the local time."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter(LINE))
    LOG.handlers = [handler]
    LOG.setLevel(logging.INFO)
    LOG.propagate = False


def pull(table: SignalTable, source: SampleSource, config: TelemetryConfig, now: float) -> Pulled:
    """Look up every job of the log that has not been looked up, and keep what is found.

    A job is kept as soon as it was looked up: a pass that is broken off goes on from there.

    Parameters
    ----------
    table : SignalTable
    source : SampleSource
    config : TelemetryConfig
    now : float
        Seconds since 1970, UTC.

    Raises
    ------
    TelemetryError
        If the source cannot be asked now.
    JobLogError
        If the job log cannot be read or written now.
    """
    found: list[JobSignals] = []
    after, later = 0, 0
    while page := table.pending(after, PAGE):
        for number, job in page:
            after = number
            if _is_fresh(job, config, now):
                later += 1
                continue
            signals = job_signals(job, source, config)
            table.put(signals)
            found += signals
    return _pulled(found, later)


def follow(once: Callable[[], Pulled], stop: Event, poll_s: float) -> None:
    """Pull every `poll_s` seconds until `stop` is set; an outage only makes it wait longer."""
    pause_s = poll_s
    while not stop.is_set():
        try:
            done = once()
            if done.measured or done.without:
                LOG.info("event=pulled measured=%d without=%s", done.measured, dict(done.without))
            pause_s = poll_s
        except (TelemetryError, JobLogError) as error:
            LOG.warning("event=outage retry_s=%g reason=%s", pause_s, error)
            pause_s = min(2 * pause_s, max(poll_s, LONGEST_PAUSE_S))
        stop.wait(pause_s)


def _is_fresh(job: FinishedJob, config: TelemetryConfig, now: float) -> bool:
    return job.finish_time > now - config.settle_s


def _pulled(found: list[JobSignals], later: int) -> Pulled:
    own = [one for one in found if one.sharing is Sharing.EXCLUSIVE]
    dropped: Counter[str] = Counter()
    for one in own:
        dropped.update(one.dropped)
    return Pulled(
        measured=sum(bool(one.signals) for one in own),
        light=len(found) - len(own),
        later=later,
        without=dict(Counter(one.note for one in own if one.note)),
        dropped=dict(sorted(dropped.items())),
    )
