"""Threads for what waits for a database or computes for long: few, and counted until they end."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from data.errors import DeadlineError, OverloadedError

T = TypeVar("T")

THREADS = 2
MOST_WAITING = 16


class Bulkhead:
    """A few threads of one purpose, so that one that hangs takes no other purpose down.

    Parameters
    ----------
    name : str
        In the threads' names.
    threads : int
    most_waiting : int
        So many may wait for a thread.

    Notes
    -----
    A caller is answered when its time is up; its thread cannot be stopped. It keeps its place
    until it ends, so that calls which all hang are refused after `threads` + `most_waiting`,
    rather than pile up (BentoML's own sync endpoints free the place: its issue 5642).
    """

    def __init__(self, name: str, threads: int = THREADS, most_waiting: int = MOST_WAITING) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._most = threads + most_waiting
        self._count, self._lock = 0, threading.Lock()

    @property
    def unfinished(self) -> int:
        """How many calls run or wait."""
        return self._count

    async def call(self, action: Callable[[], T], within_s: float) -> T:
        """Return what `action` returns, in a thread.

        Raises
        ------
        OverloadedError
            At once, where too many run or wait.
        DeadlineError
            If there is no answer within `within_s` seconds.
        """
        with self._lock:
            if self._count >= self._most:
                raise OverloadedError(
                    f"found {self._count} requests of this kind in hand, wanted at most "
                    f"{self._most}; ask again later, or another replica"
                )
            self._count += 1
        running = self._pool.submit(action)
        running.add_done_callback(self._ended)
        try:
            async with asyncio.timeout(within_s):
                return await asyncio.wrap_future(running)
        except TimeoutError as error:
            waited = f"{1e3 * within_s:.0f} ms"
            raise DeadlineError(f"no answer within {waited}; ask again") from error

    def _ended(self, running: "Future[T]") -> None:
        del running
        with self._lock:
            self._count -= 1
