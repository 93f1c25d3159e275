"""Drives the loop until it is told to stop, or until everything is done."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from data.domain import Outcome
from data.errors import ColocastError
from scheduler_client.events import log_event, log_fault
from scheduler_client.loop import Cycle, LoopParts, SchedulerLoop
from scheduler_client.policy.decisions import Waiting
from scheduler_client.policy.explain import explanation

STUCK_CYCLES = 3
"""After so many cycles with nothing running and nothing started, what waits will wait on."""


@dataclass(frozen=True, slots=True)
class RunRules:
    """When a run ends, and how fast it goes.

    Attributes
    ----------
    cycle_s : float
        Pause between two cycles.
    grace_s : float
        From the polite signal to the end of a job, when the run is stopped.
    until_empty : bool
        Whether to end when all jobs have finished and are reported.
    deliver_s : float
        With `until_empty`: how long to go on reporting once all jobs have finished.
    """

    cycle_s: float = 0.2
    grace_s: float = 5.0
    until_empty: bool = False
    deliver_s: float = 60.0


@dataclass(frozen=True, slots=True)
class RunEnd:
    """How a run ended, and what is left.

    Attributes
    ----------
    is_stopped : bool
        Somebody told it to.
    pending : int
        Jobs that have not finished.
    undelivered : int
        Attempts that are not in the job log yet; the next run goes on with them.
    refused : int
        Attempts that the service refused for good in this run.
    waiting : tuple of Waiting
        Why the pending jobs wait.
    """

    is_stopped: bool
    pending: int
    undelivered: int
    refused: int
    waiting: tuple[Waiting, ...]

    @property
    def is_clean(self) -> bool:
        """Whether nothing is left to do."""
        return not (self.pending or self.undelivered or self.refused)


def run(
    loop: SchedulerLoop,
    parts: LoopParts,
    rules: RunRules,
    stop: threading.Event,
    observe: Callable[[Cycle], None] | None = None,
) -> RunEnd:
    """Go through cycles until `stop` is set or, if so asked, until all is done.

    A cycle that fails on the spool, the outbox or the cluster is logged and tried again. Stopped,
    it ends all jobs that it started; they count as preempted and wait for the next run.
    """
    progress = _Progress(rules, parts.delivery.refused())
    recovered = False
    while not stop.is_set() and not progress.is_over:
        try:
            if not recovered:
                loop.recover()
                recovered = True
            cycle = loop.cycle()
        except ColocastError as error:
            progress.failed(error)
        else:
            progress.observe(cycle, parts.delivery.undelivered())
            if observe is not None:
                observe(cycle)
        stop.wait(0.0 if progress.is_over else rules.cycle_s)
    return _ended(loop, parts, rules, progress, stop)


class _Progress:
    """Notices that all is done, or that nothing will move any more."""

    def __init__(self, rules: RunRules, refused_before: int) -> None:
        self._rules, self.refused_before = rules, refused_before
        self._idle_cycles = 0
        self._done_s: float | None = None
        self._fault = ""
        self._explained: dict[str, str] = {}
        self.waiting: tuple[Waiting, ...] = ()
        self.is_over = False

    def failed(self, error: ColocastError) -> None:
        if str(error) != self._fault:
            log_fault("cycle_failed", error=str(error))
        self._fault = str(error)

    def observe(self, cycle: Cycle, undelivered: int) -> None:
        if self._fault:
            log_event("cycle_works_again")
            self._fault = ""
        self.waiting = cycle.decision.waiting
        self._explain()
        if self._rules.until_empty:
            self.is_over = self._is_over(cycle, undelivered)

    def _is_over(self, cycle: Cycle, undelivered: int) -> bool:
        is_idle = not cycle.running and not cycle.decision.admissions and not cycle.ended
        is_healthy = all(card.is_healthy for card in cycle.view.cards)
        self._idle_cycles = self._idle_cycles + 1 if is_idle and is_healthy else 0
        is_stuck = bool(cycle.view.pending) and self._idle_cycles >= STUCK_CYCLES
        if not is_stuck and (cycle.view.pending or not is_idle):
            self._done_s = None
            return False
        now_s = time.monotonic()
        self._done_s = now_s if self._done_s is None else self._done_s
        return undelivered == 0 or now_s - self._done_s > self._rules.deliver_s

    def _explain(self) -> None:
        """Log why a job waits, when the reason is a new one."""
        reasons = {waiting.job_id: waiting.reason for waiting in self.waiting}
        for waiting in self.waiting:
            if self._explained.get(waiting.job_id) != waiting.reason:
                log_event(
                    "waits",
                    job_id=waiting.job_id,
                    reason=waiting.reason,
                    why=explanation(waiting),
                )
        self._explained = {job_id: str(reason) for job_id, reason in reasons.items()}


def _ended(
    loop: SchedulerLoop,
    parts: LoopParts,
    rules: RunRules,
    progress: _Progress,
    stop: threading.Event,
) -> RunEnd:
    is_stopped = stop.is_set() and not progress.is_over
    if loop.running:
        log_event("stopping", jobs=len(loop.running))
        loop.end_all(Outcome.PREEMPTED, rules.grace_s)
    parts.delivery.send(rules.grace_s)
    end = RunEnd(
        is_stopped=is_stopped,
        pending=parts.spool.unfinished(),
        undelivered=parts.delivery.undelivered(),
        refused=parts.delivery.refused() - progress.refused_before,
        waiting=progress.waiting,
    )
    log_event("stopped", pending=end.pending, undelivered=end.undelivered, refused=end.refused)
    return end
