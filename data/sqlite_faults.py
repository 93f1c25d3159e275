"""What a failure of SQLite means to the person who reads it, and the next step.

Standard library only: the job log, the scheduler's outbox and its spool share it.
"""

import sqlite3
from pathlib import Path
from shutil import disk_usage

BUSY_TIMEOUT_S = 10.0
"""How long a statement waits for another process's write before it is refused."""


def sqlite_fault(error: BaseException, path: Path) -> str:
    """Return one line that names `path`, what SQLite found, and what to do next.

    Parameters
    ----------
    error : BaseException
        A ``sqlite3.Error``, with ``sqlite_errorname`` where SQLite itself refused.
    path : Path
        The database file.
    """
    name = getattr(error, "sqlite_errorname", type(error).__name__)
    for prefix, (found, step) in _STEPS.items():
        if name.startswith(prefix):
            return f"{path}: {found.format(free=_free(path))}; {step}"
    return f"{path}: {name}: {error}; check the file and its folder, then try again"


def is_busy(error: sqlite3.Error) -> bool:
    """Return whether another connection held the lock; the same statement may succeed later."""
    return getattr(error, "sqlite_errorname", "").startswith(("SQLITE_BUSY", "SQLITE_LOCKED"))


_LOCKED = (
    f"the database stayed locked for more than {BUSY_TIMEOUT_S:g} s",
    "find who holds it with `fuser` or `lsof`, end or await that process, then try again",
)
_STEPS = {
    "SQLITE_BUSY": _LOCKED,
    "SQLITE_LOCKED": _LOCKED,
    "SQLITE_FULL": (
        "the disk or the database's size limit is full ({free} free)",
        "free some space, then try again",
    ),
    "SQLITE_READONLY": (
        "the database is read-only",
        "give this user write access to the file and its folder",
    ),
    "SQLITE_CANTOPEN": (
        "the file cannot be opened",
        "create its folder, or give this user access to it",
    ),
    "SQLITE_NOTADB": (
        "the file is not a SQLite database",
        "move it away, or name another file",
    ),
    "SQLITE_CORRUPT": (
        "the database is damaged",
        "stop everything that uses it, then restore it or `sqlite3 FILE .recover` it",
    ),
    "SQLITE_IOERR": (
        "the disk failed to read or write ({free} free)",
        "check the disk and the file system, then try again",
    ),
}


def _free(path: Path) -> str:
    try:
        return f"{disk_usage(path.parent).free / 2**20:,.0f} MiB"
    except OSError:
        return "unknown"
