"""One SQLite file that the threads of a process share and that other processes may use too."""

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from data.errors import ColocastError
from data.sqlite_faults import BUSY_TIMEOUT_S, sqlite_fault


class SqliteFile:
    """An open file, its transactions, and what its failures mean.

    Parameters
    ----------
    path : Path
        The file; it and its folder are created.
    name : str
        What messages call it.
    fault : type of ColocastError
        Raised by every method if the file cannot be read or written now: says why and what to do.
    prepare : callable
        Given the new connection; sets how durable it is, and creates the tables.
    """

    def __init__(
        self,
        path: Path,
        name: str,
        fault: type[ColocastError],
        prepare: Callable[[sqlite3.Connection], object],
    ) -> None:
        self._path, self._name, self._fault = path, name, fault
        self._lock = threading.Lock()
        with self._faults():
            path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(
                path, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False
            )
            try:
                prepare(self._connection)
            except (sqlite3.Error, OSError):
                self._connection.close()
                raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; nothing waits in memory."""
        with self._lock:
            self._connection.close()

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._lock, self._faults():
            self._connection.execute("BEGIN IMMEDIATE")
            with self._connection:  # commits, or rolls back on any error
                yield self._connection

    @contextmanager
    def _faults(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise self._fault(f"{self._name} {sqlite_fault(error, self._path)}") from error
        except OSError as error:
            raise self._fault(f"{self._name} {self._path}: {error}; create its folder") from error
