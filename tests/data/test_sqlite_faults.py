import sqlite3
from pathlib import Path

import pytest

from data.sqlite_faults import is_busy, sqlite_fault


def fault(name, path="/tmp/some.db"):
    error = sqlite3.OperationalError("its own words")
    error.sqlite_errorname = name
    return sqlite_fault(error, Path(path))


@pytest.mark.parametrize(
    ("name", "match"),
    [
        ("SQLITE_BUSY_SNAPSHOT", "some.db: the database stayed locked for more than 10 s; find"),
        ("SQLITE_FULL", " MiB free); free some space"),
        ("SQLITE_READONLY_DIRECTORY", "is read-only; give this user write access"),
        ("SQLITE_CORRUPT", "is damaged; stop everything that uses it"),
        ("SQLITE_IOERR_FSYNC", "failed to read or write ("),
        ("SQLITE_MISUSE", "SQLITE_MISUSE: its own words; check the file"),
    ],
)
def test_each_fault_is_named_with_the_next_step(name, match):
    assert match in fault(name)


def test_a_folder_that_is_gone_has_unknown_free_space():
    assert "(unknown free)" in fault("SQLITE_FULL", "/nowhere/at/all/some.db")


def test_an_error_of_the_driver_itself_is_named_by_its_class():
    error = sqlite3.ProgrammingError("closed")
    assert sqlite_fault(error, Path("a.db")).startswith("a.db: ProgrammingError: closed; check")
    assert not is_busy(error)
