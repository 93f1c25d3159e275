"""Requests whose body comes too slowly, or never: given up, so that they block no one else."""

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

from data.errors import SlowRequestError

PATIENCE_S = 5.0
LOOK_S = 0.5


@dataclass(slots=True)
class SlowBodies:
    """Watches the requests that are still being read; one timer for all of them.

    A timer for each request would cost more than reading most of them does.

    Attributes
    ----------
    patience_s : float
        No body may take longer than this, give or take half a second.
    """

    patience_s: float = PATIENCE_S
    _reading: dict[asyncio.Task[Any], float] = field(default_factory=dict)
    _given_up: set[asyncio.Task[Any]] = field(default_factory=set)
    _watched: asyncio.AbstractEventLoop | None = None

    async def read(self, reading: Coroutine[Any, Any, bytes], start_s: float) -> bytes:
        """Return what `reading` returns.

        Parameters
        ----------
        reading : coroutine
        start_s : float
            Since when the request is known, on the clock of ``time.perf_counter``.

        Raises
        ------
        SlowRequestError
            If it takes longer than the service has patience.
        """
        task = asyncio.current_task()
        if task is None:
            return await reading
        self._reading[task] = start_s
        self._look_later(task.get_loop())
        try:
            return await reading
        except asyncio.CancelledError:
            if task not in self._given_up:
                raise
            self._given_up.discard(task)
            task.uncancel()
            raise SlowRequestError(
                f"found no whole body within {self.patience_s:g} s, wanted one"
            ) from None
        finally:
            self._reading.pop(task, None)

    def _look_later(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._watched is not loop:
            self._watched = loop
            loop.call_later(min(LOOK_S, self.patience_s), self._look, loop)

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        oldest_s = perf_counter() - self.patience_s
        for task in [task for task, start_s in self._reading.items() if start_s < oldest_s]:
            self._given_up.add(task)
            task.cancel()
        self._watched = None
        if self._reading:
            self._look_later(loop)
