"""One scheduler a spool: a lock that the kernel frees when its holder ends, however it ends."""

import fcntl
import os
from pathlib import Path
from types import TracebackType

from data.errors import SpoolError


class SchedulerLock:
    """Held as a context manager, by one process at a time.

    Parameters
    ----------
    spool_path : Path
        The spool that the holder schedules from.

    Raises
    ------
    SpoolError
        On entering, if another process holds it or the file cannot be made.
    """

    def __init__(self, spool_path: Path) -> None:
        self._path = spool_path.with_name(spool_path.name + ".lock")
        self._descriptor: int | None = None

    def __enter__(self) -> None:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise SpoolError(f"{self._path}: cannot be made: {error.strerror}") from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.pread(descriptor, 20, 0).decode("ascii", "replace").strip()
            os.close(descriptor)
            found = f"a scheduler that runs already (pid {holder or 'unknown'})"
            raise SpoolError(f"{self._path}: held by {found}; end it first") from error
        os.truncate(descriptor, 0)
        os.pwrite(descriptor, str(os.getpid()).encode(), 0)
        self._descriptor = descriptor

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
