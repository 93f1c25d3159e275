"""The job log's two tables, and their creation by whoever comes first."""

from uuid import uuid4

import sqlalchemy as sa

from data.errors import JobLogError
from data.joblog_engine import begin_write

VERSION = 1
"""Of the layout below; a later layout gets the next number and a migration from this one."""

CREATION_LOCK = 7_044_183_361_901_142  # any fixed number: a PostgreSQL advisory lock

METADATA = sa.MetaData()

HEAD = sa.Table(
    "joblog_head",
    METADATA,
    sa.Column("only_row", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("version", sa.Integer, nullable=False),
    sa.Column("sequence", sa.BigInteger, nullable=False),
    sa.Column("identity", sa.Text, nullable=False),
    sa.CheckConstraint("only_row = 1", name="joblog_head_only_row"),
)
"""One row: the layout's version, the newest sequence number, and which log this is, so that a
reader notices when its position belongs to another one. Writers lock it."""

JOBS = sa.Table(
    "joblog_jobs",
    METADATA,
    sa.Column("sequence", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("job_id", sa.Text, nullable=False),
    sa.Column("attempt", sa.Integer, nullable=False),
    # Text and not JSONB, which would reorder keys and round numbers.
    sa.Column("document", sa.Text, nullable=False),
    sa.UniqueConstraint("job_id", "attempt", name="joblog_jobs_key"),
)
"""One row a finished job attempt: its number, its key, and all of it as JSON text."""


def created(engine: sa.Engine) -> None:
    """Create the tables unless they are there; several processes may try at once.

    Raises
    ------
    JobLogError
        If a newer colocast laid them out.
    """
    version = _version(engine)
    if version is None:
        with begin_write(engine) as connection:
            if engine.dialect.name == "postgresql":
                # Two CREATE TABLE IF NOT EXISTS at once still collide in the catalogue.
                lock = sa.func.pg_advisory_xact_lock(CREATION_LOCK)
                connection.execute(sa.select(lock))
            METADATA.create_all(connection)
            if connection.execute(sa.select(HEAD.c.version)).first() is None:
                first = {"version": VERSION, "sequence": 0, "identity": uuid4().hex}
                connection.execute(HEAD.insert().values(only_row=1, **first))
        version = _version(engine)
    if version != VERSION:
        raise JobLogError(
            f"the job log has layout {version}, this colocast writes {VERSION}; upgrade colocast"
        )


def _version(engine: sa.Engine) -> int | None:
    with engine.begin() as connection:
        if not sa.inspect(connection).has_table(HEAD.name):
            return None
        return connection.execute(sa.select(HEAD.c.version)).scalar()
