"""Remembers what was estimated of jobs that wait, and learns from how long they really do."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from math import isfinite

from data.wire import Json, from_json, to_json
from scheduler_client.explaining.wait import WaitEstimate
from scheduler_client.explaining.wait_correction import (
    WaitCorrection,
    corrected,
    log_ratio,
    lowered,
    raised,
)

AGAIN_S = 600.0
"""Jobs that have waited so long are old; and estimated anew each time it has become twice that."""

NEW_STEP, OLD_STEP = 0.05, 0.02
"""How fast bounds move; old jobs are estimated often, and one backlog makes many of them."""

Estimates = Callable[[], Mapping[str, WaitEstimate]]


@dataclass(frozen=True, slots=True)
class _Corrections:
    """Of jobs that have just come, and of those that have waited for a while."""

    new: WaitCorrection = field(default_factory=WaitCorrection)
    old: WaitCorrection = field(default_factory=WaitCorrection)


@dataclass(slots=True)
class _Told:
    """What was estimated, with the bounds of that moment."""

    asked_time: float
    estimated_s: float
    bounds: WaitCorrection
    is_new: bool
    is_above: bool = False

    def log_ratio(self, now: float) -> float:
        return log_ratio(now - self.asked_time, self.estimated_s)


@dataclass(slots=True)
class _Open:
    """A job that waits: since when, when it is estimated anew, what was estimated of it."""

    since_time: float
    next_time: float
    told: list[_Told] = field(default_factory=list)


class WaitBook:
    """Corrects estimates of waits by those before them.

    Attributes
    ----------
    has_learnt : bool
        Whether it has learnt something; whoever has written that down takes it back.
    """

    def __init__(self) -> None:
        self._open: dict[str, _Open] = {}
        self._corrections = _Corrections()
        self.has_learnt = False

    def observe(
        self,
        now: float,
        waiting: Iterable[str],
        started: Iterable[str],
        estimates: Estimates | None,
    ) -> None:
        """Take in a cycle.

        Parameters
        ----------
        now : float
            Seconds since 1970, UTC.
        waiting, started : iterable of str
            Job ids; a job that is evicted later waits anew.
        estimates : callable
            Returns what is estimated of all that wait, not corrected, by job id; called only when
            one of them is due. None: there is no time for that now.
        """
        for job_id in started:
            known = self._open.pop(job_id, None)
            for told in known.told if known else ():
                self._is_over(told, now)
        still = list(waiting)
        for job_id in self._open.keys() - set(still):
            del self._open[job_id]  # it neither waits nor was started: nobody knows its wait
        for known in self._open.values():
            for told in known.told:
                self._goes_on(told, now)
        due = [] if estimates is None else self.due(still, now)
        found = estimates() if estimates is not None and due else {}
        for job_id in due:
            self._tell(job_id, now, found.get(job_id))

    def due(self, waiting: Iterable[str], now: float) -> list[str]:
        """Return which of the waiting jobs are to be estimated now, by job id."""
        return [j for j in waiting if j not in self._open or self._open[j].next_time <= now]

    def corrected(self, estimate: WaitEstimate, job_id: str, now: float) -> WaitEstimate:
        """Return an estimate of a job's wait from `now` on as past waits correct it.

        A job that was not seen to wait counts as one that has just come.
        """
        known = self._open.get(job_id)
        is_new = known is None or now - known.since_time < AGAIN_S
        return corrected(estimate, self._correction(is_new=is_new))

    def to_json(self) -> Json:
        """Return what it has learnt; jobs that wait are left out."""
        return to_json(self._corrections)

    @classmethod
    def from_json(cls, document: Json) -> "WaitBook":
        """Return the book that `to_json` described; one that has learnt nothing for None.

        Raises
        ------
        WireError
            If it did not.
        """
        book = cls()
        if document is not None:
            book._corrections = from_json(_Corrections, document)
        return book

    def _tell(self, job_id: str, now: float, estimate: WaitEstimate | None) -> None:
        known = self._open.setdefault(job_id, _Open(now, now))
        waited_s = now - known.since_time
        known.next_time = now + max(AGAIN_S, waited_s)
        if estimate is not None and isfinite(estimate.value_s):
            is_new = waited_s < AGAIN_S
            bounds = self._correction(is_new=is_new)
            known.told.append(_Told(now, estimate.value_s, bounds, is_new))

    def _goes_on(self, told: _Told, now: float) -> None:
        """Learn from a wait that is too long already: it may go on for days."""
        if not told.is_above and told.log_ratio(now) > told.bounds.high:
            told.is_above = True
            step = NEW_STEP if told.is_new else OLD_STEP
            found = raised(self._correction(is_new=told.is_new), step, is_above=True)
            self._learn(found, is_new=told.is_new)

    def _is_over(self, told: _Told, now: float) -> None:
        self._goes_on(told, now)
        correction = self._correction(is_new=told.is_new)
        step = NEW_STEP if told.is_new else OLD_STEP
        if not told.is_above:
            correction = raised(correction, step, is_above=False)
        is_below = told.log_ratio(now) < told.bounds.low
        self._learn(lowered(correction, step, is_below=is_below), is_new=told.is_new)

    def _correction(self, *, is_new: bool) -> WaitCorrection:
        return self._corrections.new if is_new else self._corrections.old

    def _learn(self, correction: WaitCorrection, *, is_new: bool) -> None:
        new, old = self._corrections.new, self._corrections.old
        self._corrections = (
            _Corrections(correction, old) if is_new else _Corrections(new, correction)
        )
        self.has_learnt = True
