"""Connections of the job log, their transactions, and what their failures mean."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from time import monotonic, sleep

import sqlalchemy as sa
from sqlalchemy import event, exc
from sqlalchemy.engine.interfaces import DBAPIConnection, DBAPICursor
from sqlalchemy.pool import ConnectionPoolEntry

from data.errors import JobLogError
from data.sqlite_faults import BUSY_TIMEOUT_S, is_busy, sqlite_fault

WANTED = "sqlite:///PATH or postgresql+psycopg://USER:PASSWORD@HOST:PORT/DATABASE"
CONNECT_TIMEOUT_S = 5
WRITING = "joblog_writing"  # execution option of a connection that is going to write
WAL_PAUSE_S = 0.05


def opened_engine(url: str) -> sa.Engine:
    """Return an engine for the job log at `url`; it connects on first use.

    Raises
    ------
    JobLogError
        If `url` is neither of SQLite nor of PostgreSQL, or a driver or a folder is missing.
    """
    try:
        parsed = sa.make_url(url)
    except exc.ArgumentError as error:
        raise JobLogError(f"job log: found a URL that is none, wanted {WANTED}") from error
    if parsed.get_backend_name() == "sqlite":
        return _sqlite(parsed)
    if parsed.get_backend_name() in ("postgresql", "postgres"):
        return _postgresql(parsed)
    raise JobLogError(f"job log: found {_name(parsed)}, wanted {WANTED}")


@contextmanager
def begin_write(engine: sa.Engine) -> Iterator[sa.Connection]:
    """Yield a connection in a transaction that may write; commit at the end, else roll back."""
    with engine.connect() as plain:
        connection = plain.execution_options(**{WRITING: True})
        with connection.begin():
            yield connection


@contextmanager
def faults(url: sa.URL) -> Iterator[None]:
    """Turn what the database raises inside into a JobLogError with the next step."""
    try:
        yield
    except exc.DBAPIError as error:
        # Never the statement or its parameters: they are other people's jobs.
        raise JobLogError(_explained(error, url)) from error.orig
    except sqlite3.Error as error:  # from preparing a connection, where nothing wraps it
        raise JobLogError("job log " + sqlite_fault(error, Path(url.database or ""))) from error
    except exc.SQLAlchemyError as error:
        raise JobLogError(f"job log {_name(url)}: {error}; try again") from error


def _sqlite(url: sa.URL) -> sa.Engine:
    if not url.database or url.database == ":memory:" or url.query:
        raise JobLogError(f"job log: found {_name(url)}, wanted a file: sqlite:///PATH")
    path = Path(url.database)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise JobLogError(f"job log {path}: no folder for it ({error}); create one") from error
    engine = sa.create_engine(url, connect_args={"timeout": BUSY_TIMEOUT_S})
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "connect", partial(_note_file, path))
    event.listen(engine, "checkout", partial(_refuse_other_file, path))
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _prepare_sqlite(connection: DBAPIConnection, entry: ConnectionPoolEntry) -> None:
    del entry
    try:
        # The driver would begin transactions too late and as readers; we begin them ourselves.
        connection.isolation_level = None
        _set_pragmas(connection.cursor())
    except sqlite3.Error:
        connection.close()  # the pool has not got it yet, so nobody else would
        raise


def _set_pragmas(cursor: DBAPICursor) -> None:
    _write_ahead(cursor)
    # FULL: an append is on the disk before its sender forgets the job.
    cursor.execute("PRAGMA synchronous = FULL")
    cursor.execute("PRAGMA foreign_keys = ON")
    cursor.execute("PRAGMA trusted_schema = OFF")
    cursor.close()


def _note_file(path: Path, connection: DBAPIConnection, entry: ConnectionPoolEntry) -> None:
    del connection
    entry.info["file"] = _file_at(path)


def _refuse_other_file(
    path: Path, connection: DBAPIConnection, entry: ConnectionPoolEntry, proxy: object
) -> None:
    """Drop a connection whose file was removed or replaced: what it writes, nobody would read."""
    del connection, proxy
    if entry.info.get("file") != _file_at(path):
        raise exc.DisconnectionError


def _file_at(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _write_ahead(cursor: DBAPICursor) -> None:
    # Changing the journal mode does not always wait for other connections, as statements do.
    deadline = monotonic() + BUSY_TIMEOUT_S
    while True:
        try:
            cursor.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if not is_busy(error) or monotonic() > deadline:
                raise
            sleep(WAL_PAUSE_S)


def _begin_sqlite(connection: sa.Connection) -> None:
    writing = connection.get_execution_options().get(WRITING)
    # A reader that turns writer fails at once when another wrote meanwhile: be one from the start.
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN")


def _postgresql(url: sa.URL) -> sa.Engine:
    patience = {} if "connect_timeout" in url.query else {"connect_timeout": CONNECT_TIMEOUT_S}
    try:
        engine = sa.create_engine(
            url.set(drivername="postgresql+psycopg"),
            isolation_level="READ COMMITTED",  # see the writer before us once we hold the lock
            pool_pre_ping=True,  # a connection from before a server restart is replaced
            connect_args=patience,
        )
    except ImportError as error:
        raise JobLogError(
            "job log on PostgreSQL needs the driver psycopg; pip install 'colocast[postgres]'"
        ) from error
    event.listen(engine, "begin", _begin_postgresql)
    return engine


def _begin_postgresql(connection: sa.Connection) -> None:
    connection.exec_driver_sql(f"SET LOCAL lock_timeout = '{BUSY_TIMEOUT_S:g}s'")


def _name(url: sa.URL) -> str:
    return url.render_as_string(hide_password=True)


def _explained(error: exc.DBAPIError, url: sa.URL) -> str:
    if url.get_backend_name() == "sqlite":
        return "job log " + sqlite_fault(error.orig or error, Path(url.database or ""))
    state = getattr(error.orig, "sqlstate", None)
    found = str(error.orig).strip().splitlines()[0]
    return f"job log {_name(url)}: {found}; {_POSTGRESQL_STEPS.get(str(state), _REACH)}"


_REACH = (
    "start the server, create its database and user, or correct COLOCAST_JOBLOG_URL, then try"
    " again; nothing was lost"
)
_POSTGRESQL_STEPS = {
    "42501": "grant this user CREATE on the schema, or SELECT, INSERT and UPDATE on joblog_*",
    "53100": "the server's disk is full: free some space, then try again",
    "55P03": f"another writer held the log for over {BUSY_TIMEOUT_S:g} s: end or await it",
    "25006": "this server is read-only: name the primary in COLOCAST_JOBLOG_URL",
}
"""By SQLSTATE. A connection that never came about has none, only the server's words."""
