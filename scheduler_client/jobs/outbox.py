"""Finished jobs that the service has not acknowledged yet, durable on this machine.

The scheduler puts a job in here before it forgets it; the reporter sends what is pending and
acknowledges what the service took. So an outage of the service, of the job log, or of the
scheduler itself loses nothing, and a job that is reported again counts once.
"""

import sqlite3
from collections.abc import Iterable
from pathlib import Path

from data.domain import FinishedJob
from data.errors import JobLogError
from data.finished import finished_from_text, finished_to_text
from scheduler_client.jobs.sqlite_file import SqliteFile

Key = tuple[str, int]
REMEMBERED = 100_000  # acknowledged keys kept, so that a late repetition is still known

_SCHEMA = """
CREATE TABLE IF NOT EXISTS outbox (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    job_id TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    state TEXT NOT NULL DEFAULT 'pending',
    document TEXT,
    reason TEXT,
    UNIQUE (job_id, attempt)
)
"""
_PUT = "INSERT INTO outbox (job_id, attempt, document) VALUES (?, ?, ?) ON CONFLICT DO NOTHING"
_PENDING = "SELECT document FROM outbox WHERE state = 'pending' ORDER BY number LIMIT ?"
_BACKLOG = "SELECT COUNT(*) FROM outbox WHERE state = 'pending'"
_ACKNOWLEDGE = (
    "UPDATE outbox SET state = 'acknowledged', document = NULL"
    " WHERE job_id = ? AND attempt = ? AND state = 'pending'"
)
_FORGET = (
    "DELETE FROM outbox WHERE state = 'acknowledged'"
    " AND number <= (SELECT MAX(number) FROM outbox) - ?"
)
_SET_ASIDE = (
    "UPDATE outbox SET state = 'refused', reason = ?"
    " WHERE job_id = ? AND attempt = ? AND state = 'pending'"
)
_REFUSED = "SELECT document, reason FROM outbox WHERE state = 'refused' ORDER BY number"


class Outbox(SqliteFile):
    """A queue of finished jobs in one SQLite file; safe for threads and processes.

    Parameters
    ----------
    path : Path
        The file; it and its folder are created.

    Raises
    ------
    JobLogError
        From every method, if the file cannot be read or written now: says why and what to do.

    Notes
    -----
    Each method is one transaction with ``synchronous = EXTRA``: killed at any point, a job is
    wholly in or not in. The first record of a (job id, attempt) stands: a scheduler that was
    killed between `put` and forgetting the job, and meets it again, must not count it twice.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path, "outbox", JobLogError, _prepare)

    def put(self, job: FinishedJob) -> bool:
        """Store `job` durably; return False if its key is known already, acknowledged or not.

        Raises
        ------
        WireError
            If `job` breaks a rule of ``data.finished``: nobody could ever take it.
        """
        row = (job.job_id, job.attempt, finished_to_text(job))
        with self._transaction() as connection:
            return connection.execute(_PUT, row).rowcount == 1

    def pending(self, limit: int = 100) -> tuple[FinishedJob, ...]:
        """Return at most `limit` jobs that wait for acknowledgement, oldest first."""
        with self._transaction() as connection:
            rows = connection.execute(_PENDING, (limit,)).fetchall()
        return tuple(finished_from_text(document) for (document,) in rows)

    def acknowledge(self, keys: Iterable[Key]) -> int:
        """Drop the pending jobs called `keys`, now logged; return how many were pending."""
        with self._transaction() as connection:
            dropped = sum(connection.execute(_ACKNOWLEDGE, key).rowcount for key in keys)
            connection.execute(_FORGET, (REMEMBERED,))
        return dropped

    def set_aside(self, keys: Iterable[Key], reason: str) -> int:
        """Keep the pending jobs called `keys` but send them no more: the service refused them.

        Returns
        -------
        int
            How many were pending. One job that can never be taken must not hold up the others.
        """
        with self._transaction() as connection:
            rows = [connection.execute(_SET_ASIDE, (reason, *key)) for key in keys]
        return sum(row.rowcount for row in rows)

    def refused(self) -> tuple[tuple[FinishedJob, str], ...]:
        """Return the jobs that were set aside, with the reason, oldest first."""
        with self._transaction() as connection:
            rows = connection.execute(_REFUSED).fetchall()
        return tuple((finished_from_text(document), reason) for document, reason in rows)

    def backlog(self) -> int:
        """Return how many jobs wait for acknowledgement."""
        with self._transaction() as connection:
            return int(connection.execute(_BACKLOG).fetchone()[0])


def _prepare(connection: sqlite3.Connection) -> None:
    # EXTRA: the folder is synced too, or a power cut could bring the journal back to life.
    connection.execute("PRAGMA synchronous = EXTRA")
    connection.execute(_SCHEMA)
