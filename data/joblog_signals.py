"""Signals that were looked up after jobs had finished; a table beside the job log, never in it.

The log is append-only, and its readers remember how far they are: what is learnt of a job later
is kept here, by the same key and in the same database.
"""

from collections.abc import Iterable, Sequence

import sqlalchemy as sa

from data.domain import FinishedJob
from data.joblog_engine import begin_write
from data.joblog_schema import CREATION_LOCK, JOBS, created
from data.joblog_tables import JobLogTables
from data.prometheus.job_signals import JobSignals, Sharing
from data.wire import dumps, loads

METADATA = sa.MetaData()
SIGNALS = sa.Table(
    "joblog_signals",
    METADATA,
    sa.Column("job_id", sa.Text, primary_key=True),
    sa.Column("attempt", sa.Integer, primary_key=True),
    sa.Column("sharing", sa.Text, primary_key=True),
    sa.Column("document", sa.Text, nullable=False),
)
"""One row a job attempt and sharing class; an attempt without signals has a row that says why."""


class SignalTable(JobLogTables):
    """Signals of finished jobs, by job id, attempt and sharing class.

    Parameters
    ----------
    url : str
        Of the job log.

    Raises
    ------
    JobLogError
        If the database cannot be opened now.
    """

    def __init__(self, url: str) -> None:
        super().__init__(url, _create)

    def pending(self, after: int = 0, limit: int = 1000) -> list[tuple[int, FinishedJob]]:
        """Return jobs of the log that nobody has looked up, oldest first, with their numbers.

        Parameters
        ----------
        after : int
            Only entries of the log beyond this one.
        limit : int
            At most so many.

        Raises
        ------
        JobLogError
            If the database cannot be read now.
        """
        known = sa.exists().where(
            SIGNALS.c.job_id == JOBS.c.job_id, SIGNALS.c.attempt == JOBS.c.attempt
        )
        query = (
            sa.select(JOBS.c.sequence, JOBS.c.document)
            .where(JOBS.c.sequence > after, ~known)
            .order_by(JOBS.c.sequence)
            .limit(limit)
        )
        with self._reading() as connection:
            rows = connection.execute(query).all()
        return [(number, loads(FinishedJob, document)) for number, document in rows]

    def put(self, found: Iterable[JobSignals]) -> None:
        """Keep what was found, in place of what was known of the same attempts.

        Raises
        ------
        JobLogError
            If the database cannot be written now; nothing was.
        """
        rows = [
            {
                "job_id": one.job_id,
                "attempt": one.attempt,
                "sharing": str(one.sharing),
                "document": dumps(one),
            }
            for one in found
        ]
        attempts = sorted({(row["job_id"], row["attempt"]) for row in rows})
        with self._writing() as connection:
            for job_id, attempt in attempts:
                same = (SIGNALS.c.job_id == job_id) & (SIGNALS.c.attempt == attempt)
                connection.execute(SIGNALS.delete().where(same))
            if rows:
                connection.execute(SIGNALS.insert(), rows)

    def all(self, sharing: Sharing | None = None) -> Sequence[JobSignals]:
        """Return everything that was found, or what was of one sharing class.

        Raises
        ------
        JobLogError
            If the database cannot be read now.
        """
        query = sa.select(SIGNALS.c.document)
        if sharing is not None:
            query = query.where(SIGNALS.c.sharing == str(sharing))
        with self._reading() as connection:
            documents = connection.execute(query).scalars().all()
        return [loads(JobSignals, document) for document in documents]

    def of_entries(self, first: int, last: int) -> Sequence[JobSignals]:
        """Return what was measured alone of the jobs with these numbers in the log.

        Parameters
        ----------
        first, last : int
            Both are included.

        Raises
        ------
        JobLogError
            If the database cannot be read now.
        """
        query = (
            sa.select(SIGNALS.c.document)
            .join(JOBS, (JOBS.c.job_id == SIGNALS.c.job_id) & (JOBS.c.attempt == SIGNALS.c.attempt))
            .where(JOBS.c.sequence.between(first, last))
            .where(SIGNALS.c.sharing == str(Sharing.EXCLUSIVE))
        )
        with self._reading() as connection:
            documents = connection.execute(query).scalars().all()
        return [loads(JobSignals, document) for document in documents]

    def forget_empty(self) -> int:
        """Forget the attempts of which nothing was found, so that they are looked up again.

        Returns
        -------
        int
            How many.
        """
        empty = {(one.job_id, one.attempt) for one in self.all() if not one.signals}
        empty -= {(one.job_id, one.attempt) for one in self.all() if one.signals}
        with self._writing() as connection:
            for job_id, attempt in sorted(empty):
                same = (SIGNALS.c.job_id == job_id) & (SIGNALS.c.attempt == attempt)
                connection.execute(SIGNALS.delete().where(same))
        return len(empty)


def _create(engine: sa.Engine) -> None:
    created(engine)
    with engine.begin() as connection:
        if sa.inspect(connection).has_table(SIGNALS.name):
            return
    with begin_write(engine) as connection:
        if engine.dialect.name == "postgresql":
            # Two CREATE TABLE IF NOT EXISTS at once still collide in the catalogue.
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(CREATION_LOCK)))
        METADATA.create_all(connection)
