"""The pushes that came, in one file: none counts twice, and every worker hears of each."""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from data.errors import OverloadedError, RegistryError, UnauthorizedError
from data.push_signature import WINDOW_S, Delivery

MOST_KEPT = 1_000
Mark = tuple[int, int]
"""Tells one state of the file from the next."""


@dataclass(frozen=True, slots=True)
class PushBook:
    """Deliveries of the last two minutes; shared by all workers and replicas of a home.

    Attributes
    ----------
    path : Path
        A JSON object, delivery id to the time it was sent. Replaced whole, under a lock.
    """

    path: Path

    def add(self, delivery: Delivery) -> None:
        """Write a delivery down.

        Raises
        ------
        UnauthorizedError
            If it was seen before: somebody repeats what they overheard.
        OverloadedError
            If too many came lately.
        RegistryError
            If it cannot be written down; without that, a repetition could not be told.
        """
        try:
            with self._locked():
                known = self._known(delivery.sent_time)
                if delivery.delivery_id in known:
                    raise UnauthorizedError("found a push that was seen before, wanted a new one")
                if len(known) >= MOST_KEPT:
                    raise OverloadedError(f"found {len(known)} pushes lately, wanted fewer")
                self._write({**known, delivery.delivery_id: delivery.sent_time})
        except UnauthorizedError:  # which is an OSError
            raise
        except OSError as error:
            raise RegistryError(
                f"push not taken: {self.path}: {error.strerror or error}; free some disk space. "
                "The registry is asked all the same, at the usual interval"
            ) from error

    def mark(self) -> Mark | None:
        """Return what changes with each push; None before the first, or if that cannot be told."""
        try:
            status = self.path.stat()
        except OSError:
            return None
        return status.st_ino, status.st_mtime_ns

    @contextmanager
    def _locked(self) -> Iterator[None]:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _known(self, now: float) -> dict[str, float]:
        """Return the deliveries that a repetition could still be taken for."""
        try:
            known = json.loads(self.path.read_text())
            fresh = {k: float(sent) for k, sent in known.items() if sent > now - 3 * WINDOW_S}
        except FileNotFoundError:
            return {}
        except (AttributeError, TypeError, ValueError, RecursionError):
            return {}  # half-written by hand; the window in time still holds
        return fresh

    def _write(self, known: dict[str, float]) -> None:
        beside = self.path.with_suffix(f".{os.getpid()}")
        try:
            beside.write_text(json.dumps(known))
            beside.replace(self.path)
        except OSError:
            beside.unlink(missing_ok=True)
            raise
