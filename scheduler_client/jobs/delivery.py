"""Finished jobs on their way to the job log: spool, outbox, service, acknowledgement."""

import time
from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import Protocol

from data.domain import FinishedJob
from data.errors import PredictionError, PredictionRefusedError
from scheduler_client.events import log_event, log_fault
from scheduler_client.forecast.answers import FinishedReceipt
from scheduler_client.jobs.outbox import Outbox
from scheduler_client.jobs.spool import Spool

BATCH = 100
_AT_FAULT = (
    # Statuses that say something of the jobs themselves.
    HTTPStatus.BAD_REQUEST,
    HTTPStatus.CONFLICT,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    HTTPStatus.UNPROCESSABLE_ENTITY,
)


class Reporter(Protocol):
    """Takes finished jobs for good, or raises `PredictionError`."""

    def finished(
        self, jobs: Sequence[FinishedJob], within_s: float | None = None
    ) -> FinishedReceipt:
        """Report finished jobs; return once they are in the job log."""
        ...


class Delivery:
    """Moves finished jobs on, one durable step at a time; killed anywhere, it starts over.

    Parameters
    ----------
    spool : Spool
    outbox : Outbox
    reporter : Reporter
    clock : callable
        Returns monotonic seconds.
    """

    def __init__(
        self,
        spool: Spool,
        outbox: Outbox,
        reporter: Reporter,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._spool, self._outbox = spool, outbox
        self._reporter, self._clock = reporter, clock
        self._is_held_up = False

    def put(self) -> None:
        """Put every attempt that ended into the outbox, then let the spool know."""
        while jobs := self._spool.on_their_way(BATCH):
            for job in jobs:
                self._outbox.put(job)
                self._spool.in_outbox(job.job_id, job.attempt)

    def send(self, within_s: float) -> None:
        """Report what is in the outbox for at most `within_s` seconds; an outage is no error."""
        deadline_s = self._clock() + within_s
        try:
            while (left_s := deadline_s - self._clock()) > 0:
                jobs = self._outbox.pending(BATCH)
                if not jobs:
                    break
                self._report(jobs, left_s)
        except PredictionError as error:
            if not self._is_held_up:
                waiting = self._outbox.backlog()
                log_fault("reports_held_up", waiting=waiting, error=str(error))
            self._is_held_up = True
        else:
            if self._is_held_up:
                log_event("reports_flow_again", waiting=self._outbox.backlog())
            self._is_held_up = False

    def undelivered(self) -> int:
        """Return how many attempts are not in the job log yet."""
        return self._spool.attempts_on_their_way() + self._outbox.backlog()

    def refused(self) -> int:
        """Return how many attempts the service will never take."""
        return len(self._outbox.refused())

    def _report(self, jobs: Sequence[FinishedJob], within_s: float) -> None:
        try:
            receipt = self._reporter.finished(jobs, within_s)
        except PredictionRefusedError as error:
            if error.status not in _AT_FAULT:
                raise
            self._split(jobs, within_s, error)
        else:
            self._outbox.acknowledge((job.job_id, job.attempt) for job in jobs)
            log_event(
                "reported",
                jobs=len(jobs),
                accepted=receipt.accepted,
                duplicates=receipt.duplicates,
                sequence=receipt.sequence,
            )

    def _split(
        self, jobs: Sequence[FinishedJob], within_s: float, error: PredictionRefusedError
    ) -> None:
        """Find the job that is refused: it is set aside and must not hold up the others."""
        if len(jobs) == 1:
            key = (jobs[0].job_id, jobs[0].attempt)
            self._outbox.set_aside([key], str(error))
            log_fault("report_refused", job_id=key[0], attempt=key[1], error=str(error))
            return
        half = len(jobs) // 2
        self._report(jobs[:half], within_s)
        self._report(jobs[half:], within_s)
