"""Keeps in the spool how long jobs waited, for the next scheduler."""

from data.errors import SpoolError, WireError
from scheduler_client.events import log_fault
from scheduler_client.explaining.wait_book import WaitBook
from scheduler_client.jobs.spool import Spool

NOTE = "waits"
KEEP_S = 30.0
"""The most of the past that a crash may cost."""


class KeptWaits:
    """A book of waits that is written down now and then.

    Parameters
    ----------
    spool : Spool
        Where it is kept.

    Attributes
    ----------
    book : WaitBook
    """

    def __init__(self, spool: Spool) -> None:
        self._spool, self._kept_time = spool, float("-inf")
        self._fault = ""
        self.book = _stored(spool)

    def keep(self, now: float) -> None:
        """Write the book down, unless nothing is new in it or that was done a short while ago."""
        if not self.book.has_learnt or 0 <= now - self._kept_time < KEEP_S:
            return
        self._kept_time = now
        try:
            self._spool.note(NOTE, self.book.to_json())
        except SpoolError as error:
            if str(error) != self._fault:
                log_fault("waits_not_kept", error=str(error))
            self._fault = str(error)
        else:
            self._fault, self.book.has_learnt = "", False


def _stored(spool: Spool) -> WaitBook:
    try:
        return WaitBook.from_json(spool.noted(NOTE))
    except WireError as error:
        log_fault("waits_forgotten", error=str(error))
        return WaitBook()
