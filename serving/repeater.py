"""A background thread that does one thing again and again, and can be stopped at once."""

import logging
import random
import threading
from collections.abc import Callable

from data.errors import ColocastError

LOG = logging.getLogger(__name__)
JITTER = 0.25  # so that the workers of one service do not all ask at the same moment


class Repeater:
    """Calls `action` every `interval_s` seconds, give or take a quarter, until stopped.

    Parameters
    ----------
    name : str
        Of the thread, and in the log.
    action : callable
        A deliberate error in it is logged once, until it changes or ends; the thread goes on.
    interval_s : float
    random_state : random.Random
        Draws the jitter.
    """

    def __init__(
        self,
        name: str,
        action: Callable[[], object],
        interval_s: float,
        random_state: random.Random,
    ) -> None:
        self._action, self._interval_s, self._random = action, interval_s, random_state
        self._stopped, self._woken = threading.Event(), threading.Event()
        self._last_error = ""
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin; the first call comes after one interval."""
        self._thread.start()

    def stop(self, timeout_s: float = 5.0) -> None:
        """Ask the thread to end and wait for it, at most `timeout_s`."""
        self._stopped.set()
        self._woken.set()
        if self._thread.is_alive():
            self._thread.join(timeout_s)

    @property
    def is_alive(self) -> bool:
        """Whether it still repeats; an error that nobody expected ends it, with its traceback."""
        return self._thread.is_alive()

    def wake(self) -> None:
        """Let the next call come now instead of after the interval."""
        self._woken.set()

    def _run(self) -> None:
        while not self._stopped.is_set():
            self._woken.wait(self._pause_s())
            self._woken.clear()
            if not self._stopped.is_set():
                self.turn()

    def turn(self) -> None:
        """Call the action once, logging a deliberate error the first time it occurs."""
        error = ""
        try:
            self._action()
        except ColocastError as failure:
            error = str(failure)
            if error != self._last_error:
                LOG.warning("%s: %s", self._thread.name, error)
        if self._last_error and not error:
            LOG.info("%s: recovered", self._thread.name)
        self._last_error = error

    def _pause_s(self) -> float:
        return self._interval_s * self._random.uniform(1 - JITTER, 1 + JITTER)
