"""An independent check of a replay's event log: recomputes everything from its rows alone.

Shares no code with the replay; it knows only the meaning of the columns, as ``docs/replay.md``
states it.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby
from math import isnan
from operator import attrgetter
from typing import NamedTuple

import numpy as np
import pandas as pd

from data.errors import TableError, shown

ROOM = 2
"""Jobs a card may hold."""

SLACK_S = 1e-3
"""Seconds by which sums of floats over months may differ."""

Card = tuple[int, int]


class Row(NamedTuple):
    """One row of the log, as far as the check reads it."""

    job_id: str
    attempt: int
    event: str
    time_s: float
    node: int
    gpu: int
    neighbour: str
    slowdown: float
    gpus: int
    work_s: float

    @property
    def card(self) -> Card:
        """Which card it speaks of."""
        return self.node, self.gpu


@dataclass(frozen=True, slots=True)
class CheckedLog:
    """What the rows of a log come to.

    Attributes
    ----------
    faults : tuple of str
        Everything that contradicts the rules; empty: the log holds.
    metrics : dict of str to float
        ``jobs``, ``mean_queueing_delay_s``, ``p999_queueing_delay_s``, ``mean_jct_s``,
        ``makespan_s``, ``evictions`` and ``mean_colocated_slowdown`` (see ``replay_metrics``).
    """

    faults: tuple[str, ...]
    metrics: dict[str, float]


def checked_log(events: pd.DataFrame) -> CheckedLog:
    """Follow an event log from its first row to its last.

    Checked are: time never runs back; nothing starts before it is submitted, runs twice or never
    ends; a gang starts, stops and ends as a whole; no card holds more than two jobs; neighbours
    name each other; who is alone is not slowed; and the work done at the recorded speeds is the
    work owed, at every row that states it.

    Parameters
    ----------
    events : DataFrame
        As ``colocast replay --events`` writes it.

    Raises
    ------
    TableError
        A column is missing.
    """
    missing = set(Row._fields) - set(events.columns)
    if missing:
        raise TableError("event log", f"no column {shown(missing)}", ", ".join(Row._fields))
    books = _Books()
    for _, rows in groupby(_rows(events), key=attrgetter("time_s", "event", "job_id")):
        books.enter(list(rows))
    books.close()
    return CheckedLog(tuple(books.faults), _metrics(books))


def _rows(events: pd.DataFrame) -> Iterator[Row]:
    columns = [events[name].tolist() for name in Row._fields]
    return map(Row._make, zip(*columns, strict=True))


@dataclass(slots=True)
class _Job:
    """A job as the rows so far describe it; times and work in seconds."""

    submit_s: float
    gpus: int
    owed_s: float
    attempt: int = 1
    done_s: float = 0.0
    since_s: float = 0.0
    ran_s: float = 0.0
    slowed_s: float = 0.0
    shared_s: float = 0.0
    finish_s: float = float("nan")
    slowdowns: dict[Card, float] = field(default_factory=dict)
    beside: dict[Card, str] = field(default_factory=dict)

    def advance(self, now: float) -> None:
        """Run until `now` as fast as the slowest card lets it."""
        passed_s = now - self.since_s
        slowdown = max(self.slowdowns.values(), default=1.0)
        self.since_s = now
        self.done_s += passed_s / slowdown
        self.ran_s += passed_s
        self.slowed_s += passed_s - passed_s / slowdown
        if any(self.beside.values()):
            self.shared_s += passed_s


class _Books:
    """What the rows so far say, and everything in them that cannot be."""

    def __init__(self) -> None:
        self.jobs: dict[str, _Job] = {}
        self.faults: list[str] = []
        self.evictions = 0
        self._residents: dict[Card, list[str]] = {}
        self._touched: set[Card] = set()
        self._now = 0.0

    def enter(self, rows: list[Row]) -> None:
        """Take in all rows of one job at one event."""
        first = rows[0]
        if first.time_s != self._now:
            self._settle()
            self._expect(first, first.time_s > self._now, "time runs back")
            self._now = first.time_s
        if first.event == "submit":
            self._submit(first)
            return
        job = self.jobs.get(first.job_id)
        known = {"start": self._start, "change": self._change, "finish": self._end}
        handle = (known | {"preempt": self._end}).get(first.event)
        if job is None or handle is None:
            self._expect(first, holds=False, what="was never submitted, or the event is unknown")
            return
        self._expect(first, first.attempt == job.attempt, f"wanted attempt {job.attempt}")
        handle(job, rows)
        self._touched.update(row.card for row in rows)

    def close(self) -> None:
        """Take note of the end of the log."""
        self._settle()
        never = [job_id for job_id, job in self.jobs.items() if isnan(job.finish_s)]
        if never:
            self.faults.append(f"never finished: {shown(never)}")

    def _submit(self, row: Row) -> None:
        self._expect(row, row.job_id not in self.jobs, "is submitted twice")
        self._expect(row, row.work_s > 0 and row.gpus >= 1, "owes no work, or asks for no card")
        self.jobs[row.job_id] = _Job(row.time_s, row.gpus, row.work_s)

    def _start(self, job: _Job, rows: list[Row]) -> None:
        first = rows[0]
        is_over = not isnan(job.finish_s)
        self._expect(first, not job.slowdowns and not is_over, "starts though it runs or is over")
        self._expect(first, len({row.card for row in rows}) == job.gpus == len(rows), "half a gang")
        self._expect_work(first, job)
        job.since_s = self._now
        for row in rows:
            residents = self._residents.setdefault(row.card, [])
            residents.append(row.job_id)
            self._expect(row, len(residents) <= ROOM, f"card {row.card} is oversubscribed")
            self._sees(job, row)

    def _change(self, job: _Job, rows: list[Row]) -> None:
        job.advance(self._now)
        self._expect_work(rows[0], job)
        for row in rows:
            self._expect(row, row.card in job.slowdowns, "changes on a card that it is not on")
            self._sees(job, row)

    def _end(self, job: _Job, rows: list[Row]) -> None:
        first = rows[0]
        job.advance(self._now)
        whole = {row.card for row in rows} == set(job.slowdowns) and len(rows) == job.gpus
        self._expect(first, whole, "leaves only some of its cards")
        if first.event == "finish":
            self._expect_work(first, job)
            owed = abs(job.done_s - job.owed_s) <= SLACK_S
            self._expect(first, owed, f"did {job.done_s} s of work and owed {job.owed_s} s")
            job.finish_s = self._now
        else:
            self._expect(first, first.work_s <= job.done_s + SLACK_S, "gains work by an eviction")
            job.done_s = first.work_s
            job.attempt += 1
            self.evictions += 1
        for card in job.slowdowns:
            left = [other for other in self._residents.get(card, []) if other != first.job_id]
            self._residents[card] = left
        job.slowdowns, job.beside = {}, {}

    def _sees(self, job: _Job, row: Row) -> None:
        job.slowdowns[row.card], job.beside[row.card] = row.slowdown, row.neighbour
        free = row.slowdown == 1 if not row.neighbour else row.slowdown >= 1
        self._expect(row, free, f"slowdown {row.slowdown} beside {row.neighbour or 'nobody'}")

    def _settle(self) -> None:
        """Compare who is on the touched cards with whom the jobs there see beside them."""
        for card in self._touched:
            residents = self._residents.get(card, [])
            for job_id in residents:
                others = [other for other in residents if other != job_id]
                seen = self.jobs[job_id].beside.get(card)
                if seen != (others[0] if others else ""):
                    self._fault(job_id, f"on {card} beside {others}, its row says {seen!r}")
        self._touched.clear()

    def _expect_work(self, row: Row, job: _Job) -> None:
        holds = abs(row.work_s - job.done_s) <= SLACK_S
        self._expect(row, holds, f"row says {row.work_s} s done, its speeds say {job.done_s} s")

    def _expect(self, row: Row, holds: bool, what: str) -> None:
        if not holds:
            self._fault(row.job_id, what)

    def _fault(self, job_id: str, what: str) -> None:
        self.faults.append(f"{self._now:.3f} s, {job_id}: {what}")


def _metrics(books: _Books) -> dict[str, float]:
    jobs = list(books.jobs.values())
    if not jobs:
        return {"jobs": 0.0}
    finish = np.array([job.finish_s for job in jobs])
    jct = finish - np.array([job.submit_s for job in jobs])
    ran = np.array([job.ran_s for job in jobs])
    slowed = np.array([job.slowed_s for job in jobs])
    delay = np.maximum(0.0, jct - ran)
    shared = np.array([job.shared_s for job in jobs]) > 0
    slowdown = ran[shared] / (ran[shared] - slowed[shared])
    return {
        "jobs": float(len(jobs)),
        "mean_queueing_delay_s": float(delay.mean()),
        "p999_queueing_delay_s": float(np.quantile(delay, 0.999)),
        "mean_jct_s": float(jct.mean()),
        "makespan_s": float(finish.max() - min(job.submit_s for job in jobs)),
        "evictions": float(books.evictions),
        "mean_colocated_slowdown": float(slowdown.mean()) if shared.any() else 1.0,
    }
