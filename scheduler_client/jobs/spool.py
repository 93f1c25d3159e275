"""Submitted jobs until they have finished and are on their way to the job log; durable.

A job is ``pending``, then ``running``, then ``finished``, or ``pending`` again with the next
attempt. Every attempt that ends is written in the same transaction as the job's next state, and
goes to the outbox from there, so that killing anything at any moment neither loses an attempt
nor counts one twice.
"""

import json
import secrets
import sqlite3
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from data.domain import FinishedJob, Outcome
from data.errors import SpoolError
from data.finished import finished_from_text, finished_to_text
from data.wire import Json, dumps, loads
from scheduler_client.jobs import spool_sql
from scheduler_client.jobs.sqlite_file import SqliteFile
from scheduler_client.jobs.submission import Submission, checked_submission

KEPT_ATTEMPTS = 10_000
"""Attempts in the outbox that are kept for reports; older ones are forgotten."""


class JobState(StrEnum):
    """Where a submitted job is."""

    PENDING = "pending"
    RUNNING = "running"
    FINISHED = "finished"


@dataclass(frozen=True, slots=True)
class SpooledJob:
    """A submitted job that has not finished.

    Attributes
    ----------
    attempt : int
        The attempt that waits or runs, from 1.
    start_time : float, optional
        When the running attempt was started (s since 1970, UTC).
    placement : dict, optional
        What the scheduler wrote down when it started the attempt.
    attained_gpu_s : float
        GPU time that earlier attempts have had.
    """

    job_id: str
    attempt: int
    submit_time: float
    start_time: float | None
    submission: Submission
    placement: dict[str, Json] | None = None
    attained_gpu_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Attempt:
    """An attempt that ended, with what the scheduler had decided about it."""

    finished: FinishedJob
    placement: Json


@dataclass(frozen=True, slots=True)
class Starting:
    """An attempt that is about to run.

    Attributes
    ----------
    start_time : float
        Seconds since 1970, UTC.
    placement : dict
        What the scheduler wants to find again.
    """

    job_id: str
    attempt: int
    start_time: float
    placement: dict[str, Json]

    @property
    def row(self) -> tuple[float, str, str, int]:
        """The values of ``spool_sql.START``."""
        return self.start_time, json.dumps(self.placement), self.job_id, self.attempt


class Spool(SqliteFile):
    """The submitted jobs of one installation in a SQLite file; any process may submit.

    Parameters
    ----------
    path : Path
        The file; it and its folder are created.

    Raises
    ------
    SpoolError
        From every method, if the file cannot be read or written now: says why and what to do.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path, "spool", SpoolError, partial(_prepare, path))

    def submit(self, submission: Submission, now: float | None = None) -> str:
        """Append a job durably and return its id; needs no running scheduler.

        Parameters
        ----------
        now : float, optional
            Submission time (s since 1970, UTC); by default the clock's.

        Raises
        ------
        SettingError
            If the submission cannot be run; names the field.
        """
        submit_time = time.time() if now is None else now
        job_id = f"{int(submit_time):08x}-{secrets.token_hex(4)}"
        text = dumps(checked_submission(submission))
        with self._transaction() as connection:
            connection.execute(spool_sql.SUBMIT, (job_id, submit_time, text))
        return job_id

    def jobs(self, state: JobState) -> tuple[SpooledJob, ...]:
        """Return the jobs in `state`, in the order of their submission."""
        return tuple(_job(row) for row in self._rows(spool_sql.IN_STATE, state))

    def start(
        self, job_id: str, attempt: int, start_time: float, placement: dict[str, Json]
    ) -> None:
        """Write down that an attempt is about to run, before it does.

        Raises
        ------
        SpoolError
            If that attempt is not pending: somebody else has started it.
        """
        self.start_all([Starting(job_id, attempt, start_time, placement)])

    def start_all(self, starting: Sequence[Starting]) -> None:
        """Write down in one step that attempts are about to run, before any of them does.

        Raises
        ------
        SpoolError
            If one of them is not pending: nothing is then written.
        """
        with self._transaction() as connection:
            for attempt in starting:
                if connection.execute(spool_sql.START, attempt.row).rowcount != 1:
                    raise SpoolError(
                        f"job {attempt.job_id}: attempt {attempt.attempt} is not pending any more"
                    )

    def replace_placements(self, placements: Mapping[str, dict[str, Json]]) -> None:
        """Write down more about running attempts, by job id."""
        rows = [(json.dumps(placement), job_id) for job_id, placement in placements.items()]
        with self._transaction() as connection:
            connection.executemany(spool_sql.PLACEMENT, rows)

    def end(self, finished: FinishedJob, *, resubmit: bool) -> bool:
        """Write down how a running attempt ended, and what becomes of its job, in one step.

        Parameters
        ----------
        resubmit : bool
            Whether the job waits for another attempt, or has finished.

        Returns
        -------
        bool
            False if that attempt does not run, having been ended before; nothing is changed.
        """
        key = (finished.job_id, finished.attempt)
        with self._transaction() as connection:
            row = (finished.outcome, finished_to_text(finished), *key)
            if connection.execute(spool_sql.ATTEMPT, row).rowcount != 1:
                return False
            if resubmit:
                had_gpu_s = finished.runtime_s * finished.gpus
                connection.execute(spool_sql.AGAIN, (had_gpu_s, finished.job_id))
            else:
                connection.execute(spool_sql.DONE, (finished.job_id,))
            return True

    def on_their_way(self, limit: int = 100) -> tuple[FinishedJob, ...]:
        """Return attempts that ended and may not be in the outbox yet, oldest first."""
        return tuple(
            finished_from_text(text) for (text,) in self._rows(spool_sql.ON_THEIR_WAY, limit)
        )

    def in_outbox(self, job_id: str, attempt: int) -> None:
        """Write down that an attempt is in the outbox; forget attempts that are long past."""
        with self._transaction() as connection:
            connection.execute(spool_sql.IN_OUTBOX, (job_id, attempt))
            forgotten = connection.execute(spool_sql.FORGET_ATTEMPTS, (KEPT_ATTEMPTS,)).rowcount
            if forgotten:
                connection.execute(spool_sql.FORGET_JOBS)

    def attempts(self, after: int = 0) -> tuple[Attempt, ...]:
        """Return the attempts that ended, in that order, beginning after number `after`."""
        query = "SELECT finished, placement FROM attempts WHERE number > ? ORDER BY number"
        return tuple(
            Attempt(finished_from_text(text), _parsed(placement or "null"))
            for text, placement in self._rows(query, after)
        )

    def newest_attempt(self) -> int:
        """Return the number of the attempt that ended last; 0 where none has."""
        return int(self._rows("SELECT COALESCE(MAX(number), 0) FROM attempts")[0][0])

    def unfinished(self) -> int:
        """Return how many jobs wait or run."""
        return int(self._rows("SELECT COUNT(*) FROM jobs WHERE state <> 'finished'")[0][0])

    def attempts_on_their_way(self) -> int:
        """Return how many attempts ended and may not be in the outbox yet."""
        return int(self._rows("SELECT COUNT(*) FROM attempts WHERE in_outbox = 0")[0][0])

    def attempts_with(self, job_id: str, outcome: Outcome) -> int:
        """Return how many attempts of a job ended with `outcome`."""
        query = "SELECT COUNT(*) FROM attempts WHERE job_id = ? AND outcome = ?"
        return int(self._rows(query, job_id, outcome)[0][0])

    def note(self, name: str, value: Json) -> None:
        """Keep a value that the scheduler wants to find again after a restart."""
        with self._transaction() as connection:
            connection.execute(spool_sql.NOTE, (name, json.dumps(value)))

    def noted(self, name: str) -> Json:
        """Return what was kept under `name`, or None."""
        rows = self._rows("SELECT value FROM notes WHERE name = ?", name)
        return _parsed(rows[0][0]) if rows else None

    def _rows(self, query: str, *values: object) -> list[Any]:
        with self._lock, self._faults():  # one statement sees one state; WAL lets others write
            return self._connection.execute(query, values).fetchall()


def _prepare(path: Path, connection: sqlite3.Connection) -> None:
    path.chmod(0o600)  # commands and environments may hold secrets: for this user only
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.executescript(spool_sql.SCHEMA)
    if _lacks_attained(connection):
        connection.execute("BEGIN IMMEDIATE")
        with connection:
            if _lacks_attained(connection):  # nobody else has added it meanwhile
                connection.execute(spool_sql.ADD_ATTAINED)


def _lacks_attained(connection: sqlite3.Connection) -> bool:
    return ("attained_gpu_s",) not in connection.execute(spool_sql.COLUMNS).fetchall()


def _job(row: tuple[str, int, float, float | None, str, str | None, float]) -> SpooledJob:
    job_id, attempt, submit_time, start_time, submission, placement, attained_gpu_s = row
    found = _submission(submission)
    noted = None if placement is None else json.loads(placement)
    return SpooledJob(job_id, attempt, submit_time, start_time, found, noted, attained_gpu_s)


@lru_cache(maxsize=20_000)
def _submission(text: str) -> Submission:
    return loads(Submission, text)  # the same pending jobs are read in every cycle


def _parsed(text: str) -> Json:
    value: Json = json.loads(text)
    return value
