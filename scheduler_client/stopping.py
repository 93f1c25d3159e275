"""Turns SIGTERM and SIGINT into an event, so that a loop ends between two steps."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def stop_on_signals() -> Iterator[threading.Event]:
    """Yield an event that the first SIGTERM or SIGINT sets; handlers are restored after."""
    stop = threading.Event()

    def told(number: int, frame: FrameType | None) -> None:
        del number, frame
        stop.set()

    before = {number: signal.signal(number, told) for number in SIGNALS}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
