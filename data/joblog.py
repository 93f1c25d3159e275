"""The job log: every finished job once, in one order that all readers agree on.

SQLAlchemy core; SQLite (WAL) by default, PostgreSQL by URL.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from data.domain import FinishedJob
from data.errors import JobConflictError, JobLogError
from data.finished import finished_to_text
from data.joblog_schema import HEAD, JOBS
from data.joblog_tables import JobLogTables
from data.wire import loads

Key = tuple[str, int]
KEYS_A_STATEMENT = 400  # SQLite before 3.32 takes 999 parameters
LARGEST_PAGE = 10_000


@dataclass(frozen=True, slots=True)
class Appended:
    """What one append did.

    Attributes
    ----------
    accepted : int
        Jobs that were new.
    duplicates : int
        Jobs that the log held already, or that the call named twice.
    sequence : int
        The newest sequence number of the log after the append; 0 while it is empty.
    """

    accepted: int
    duplicates: int
    sequence: int


class JobLog(JobLogTables):
    """An append-only log of finished jobs, idempotent by (job id, attempt).

    Safe to use from several threads and processes at once.

    Parameters
    ----------
    url : str
        ``sqlite:///PATH`` or ``postgresql+psycopg://USER:PASSWORD@HOST:PORT/DATABASE``.

    Raises
    ------
    JobLogError
        If the URL names something else, or the database cannot be opened now.

    Notes
    -----
    A reader that remembers the last sequence number it saw must never miss a row. A serial
    column does not give that: PostgreSQL draws the number when the row is inserted but shows the
    row when its transaction commits, so number 8 can appear before number 7, and a rolled-back 7
    never does. Here each writer first locks the one row of ``joblog_head``, numbers its jobs
    from there, and commits them together with the new head. The next writer gets the lock only
    after that commit is visible. So rows appear in the order of their numbers, without a gap.
    SQLite gives the same through ``BEGIN IMMEDIATE``, which admits one writer at a time.
    """

    def append(self, jobs: Sequence[FinishedJob]) -> Appended:
        """Append all of `jobs` that the log does not hold, or, on any error, none of them.

        Durable on return. After an error the caller may repeat the call: what was written
        nevertheless is then counted as duplicate.

        Raises
        ------
        WireError
            If a job breaks a rule of ``data.finished``.
        JobConflictError
            If the log, or `jobs` itself, holds another content under the same key.
        JobLogError
            If the log cannot be written now; says why and what to do.
        """
        texts = _texts(jobs)
        with self._writing() as connection:
            head = connection.execute(sa.select(HEAD.c.sequence).with_for_update()).scalar_one()
            known = _known(connection, texts)
            _refuse_conflicts(known, texts)
            fresh = [key for key in texts if key not in known]
            if fresh:
                rows = [_row(head + 1 + i, key, texts[key]) for i, key in enumerate(fresh)]
                connection.execute(JOBS.insert(), rows)
                connection.execute(HEAD.update().values(sequence=head + len(fresh)))
            return Appended(len(fresh), len(jobs) - len(fresh), head + len(fresh))

    def since(self, sequence: int, limit: int = 1000) -> list[tuple[int, FinishedJob]]:
        """Return the next finished jobs after `sequence`, oldest first.

        Parameters
        ----------
        sequence : int
            The last number already seen; 0 for the start.
        limit : int
            At most so many, in [1, 10000].

        Raises
        ------
        JobLogError
            If the log cannot be read now, or a row in it was not written by this class.
        """
        query = (
            sa.select(JOBS.c.sequence, JOBS.c.document)
            .where(JOBS.c.sequence > sequence)
            .order_by(JOBS.c.sequence)
            .limit(max(1, min(limit, LARGEST_PAGE)))
        )
        with self._reading() as connection:
            rows = connection.execute(query).all()
        return [(number, _job(number, document)) for number, document in rows]

    def count(self) -> int:
        """Return how many finished jobs the log holds; also its newest sequence number."""
        with self._reading() as connection:
            return int(connection.execute(sa.select(HEAD.c.sequence)).scalar_one())

    def identity(self) -> str:
        """Return which log this is: sequence numbers of another one mean nothing here."""
        with self._reading() as connection:
            return str(connection.execute(sa.select(HEAD.c.identity)).scalar_one())


def tail(log: JobLog, sequence: int = 0) -> Iterator[tuple[int, FinishedJob]]:
    """Yield every finished job after `sequence` that the log holds now, a page at a time."""
    while page := log.since(sequence):
        yield from page
        sequence = page[-1][0]


def _texts(jobs: Sequence[FinishedJob]) -> dict[Key, str]:
    texts: dict[Key, str] = {}
    differing = []
    for job in jobs:
        key, text = (job.job_id, job.attempt), finished_to_text(job)
        if texts.setdefault(key, text) != text:
            differing.append(key)
    if differing:
        raise JobConflictError(differing)
    return texts


def _known(connection: sa.Connection, texts: Iterable[Key]) -> dict[Key, str]:
    ids = sorted({job_id for job_id, _ in texts})
    known: dict[Key, str] = {}
    for start in range(0, len(ids), KEYS_A_STATEMENT):
        chunk = ids[start : start + KEYS_A_STATEMENT]
        query = sa.select(JOBS.c.job_id, JOBS.c.attempt, JOBS.c.document)
        for job_id, attempt, document in connection.execute(query.where(JOBS.c.job_id.in_(chunk))):
            known[job_id, attempt] = document
    return known


def _refuse_conflicts(known: dict[Key, str], texts: dict[Key, str]) -> None:
    # Compared as jobs, not as texts: an older colocast may have written fewer fields.
    twice = (key for key in texts if key in known and texts[key] != known[key])
    differing = [k for k in twice if loads(FinishedJob, texts[k]) != _job(k, known[k])]
    if differing:
        raise JobConflictError(differing)


def _row(sequence: int, key: Key, text: str) -> dict[str, object]:
    return {"sequence": sequence, "job_id": key[0], "attempt": key[1], "document": text}


def _job(where: object, document: str) -> FinishedJob:
    try:
        return loads(FinishedJob, document)  # its rules were checked when it was appended
    except ValueError as error:
        raise JobLogError(
            f"job log, entry {where}: {error}; it was written by something else or by a newer"
            " colocast: upgrade this one"
        ) from error
