"""How a long-lived command ends when asked to: at once, but never in the middle of a write."""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event
from types import FrameType

SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Shutdown:
    """Turns SIGTERM and SIGINT into an orderly end of the main thread.

    Attributes
    ----------
    stop : Event
        Set by the first signal.

    Notes
    -----
    Outside a `shield` the signal raises ``SystemExit``, so that a training that takes minutes
    does not outlive the patience of whoever ends us; inside, the write is completed first.
    """

    def __init__(self) -> None:
        self.stop = Event()
        self._shields = 0

    @contextmanager
    def installed(self) -> Iterator["Shutdown"]:
        """Handle the signals for the block, and as before afterwards."""
        former = {number: signal.signal(number, self._asked) for number in SIGNALS}
        try:
            yield self
        finally:
            for number, handler in former.items():
                signal.signal(number, handler)

    @contextmanager
    def shield(self) -> Iterator[None]:
        """Put a signal off until the block has ended."""
        self._shields += 1
        try:
            yield
        finally:
            self._shields -= 1
        if self.stop.is_set() and not self._shields:
            sys.exit(0)

    def _asked(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        self.stop.set()
        if not self._shields:
            sys.exit(0)
