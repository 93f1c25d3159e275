"""Connections to the database of a job log, for whoever reads or writes its tables."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self

import sqlalchemy as sa

from data.errors import JobLogError
from data.joblog_engine import begin_write, faults, opened_engine
from data.joblog_schema import created


class JobLogTables:
    """An open database; safe to use from several threads and processes at once.

    Parameters
    ----------
    url : str
        ``sqlite:///PATH`` or ``postgresql+psycopg://USER:PASSWORD@HOST:PORT/DATABASE``.
    create : callable
        Creates the tables that are wanted where they are not there.

    Raises
    ------
    JobLogError
        If the URL names something else, or the database cannot be opened now.
    """

    def __init__(self, url: str, create: Callable[[sa.Engine], object] = created) -> None:
        self._engine = opened_engine(url)
        try:
            with faults(self._engine.url):
                create(self._engine)
        except JobLogError:
            self.close()
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
        """Close all connections; a later call opens new ones."""
        self._engine.dispose()

    @contextmanager
    def _writing(self) -> Iterator[sa.Connection]:
        with faults(self._engine.url), begin_write(self._engine) as connection:
            yield connection

    @contextmanager
    def _reading(self) -> Iterator[sa.Connection]:
        with faults(self._engine.url), self._engine.begin() as connection:
            yield connection
