"""What cycles tell each other: cards that are kept for somebody, and who had to give way."""

from collections.abc import Collection
from dataclasses import dataclass

from data.errors import WireError
from data.wire import from_json, to_json
from scheduler_client.events import log_fault
from scheduler_client.jobs.spool import Spool
from scheduler_client.policy.decisions import Decision
from scheduler_client.policy.view import PastEviction, Reservation

NOTE = "evictions"


@dataclass(frozen=True, slots=True)
class _Stored:
    evictions: tuple[PastEviction, ...]


class Clearing:
    """Reservations of this scheduler, and evictions over restarts.

    Reservations end with the scheduler: so do the jobs that were to leave.

    Attributes
    ----------
    reservations : tuple of Reservation
        As the newest decision left them.
    """

    def __init__(self, spool: Spool) -> None:
        self._spool = spool
        self.reservations: tuple[Reservation, ...] = ()
        self._evictions = _stored(spool)

    def evictions(self, unfinished: Collection[str]) -> tuple[PastEviction, ...]:
        """Return the evictions of unfinished jobs, and forget those of all others."""
        if self._evictions:
            self._evictions = tuple(e for e in self._evictions if e.job_id in unfinished)
        return self._evictions

    def observe(self, decision: Decision, now: float) -> None:
        """Take in a decision, and write its evictions down."""
        new = tuple(
            PastEviction(victim, eviction.job_id, now)
            for eviction in decision.evictions
            for victim in eviction.victims
        )
        if new:
            self._spool.note(NOTE, to_json(_Stored(self._evictions + new)))
            self._evictions += new
        self.reservations = decision.reservations


def _stored(spool: Spool) -> tuple[PastEviction, ...]:
    document = spool.noted(NOTE)
    if document is None:
        return ()
    try:
        return from_json(_Stored, document).evictions
    except WireError as error:
        log_fault("evictions_forgotten", error=str(error))
        return ()
