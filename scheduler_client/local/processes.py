"""One running job as a process on a card: started, watched, ended, never left behind."""

import contextlib
import os
import signal
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from data.domain import Outcome
from scheduler_client.local.devices import Device
from scheduler_client.local.standby import Standby

KIB = 1024
LOG_TAIL_BYTES = 8192
MEMORY_MESSAGES = (
    "MemoryError",
    "CUDA out of memory",
    "OutOfMemoryError",
    "CUDA_ERROR_OUT_OF_MEMORY",
    "std::bad_alloc",
    "Cannot allocate memory",
)
"""What Python, PyTorch, TensorFlow, C++ and libc say last when memory has run out."""


@dataclass(frozen=True, slots=True)
class ResourceUsage:
    """What a job used in all, with the descendants it waited for.

    Attributes
    ----------
    user_s, system_s : float
        CPU time in seconds.
    peak_rss_mib : float
        The largest resident memory of any one of its processes (MiB).
    io_bytes : int, optional
        Bytes it read and wrote through system calls, page cache and pipes included.
    """

    user_s: float
    system_s: float
    peak_rss_mib: float
    io_bytes: int | None


@dataclass(frozen=True, slots=True)
class _End:
    runtime_s: float
    returncode: int
    usage: ResourceUsage | None
    oom_killed: bool


class RunningProcess:
    """One job's process and all its descendants, pinned to a card; made by `start` or `begin`.

    A supervisor process of its own (`scheduler_client.local.supervisor`) starts, times and reaps
    the job, and kills it with all its descendants when this process dies, even by SIGKILL.

    Attributes
    ----------
    device : Device
    pid : int
        Of the command; also the id of its process group and session.
    started_time : float
        When it was forked (s since 1970, UTC).
    failure : str
        Why the command could not be run, else empty.
    log_path : Path, optional
    """

    def __init__(self, standby: Standby) -> None:
        self.device, self.log_path = standby.device, standby.log_path
        self._oom_kills_before = _oom_kills()
        self._log_begin = self.log_path.stat().st_size if self.log_path is not None else 0
        event = standby.go()
        self.pid = int(event["pid"])
        self.started_time = float(event["started_time"])
        self.failure = str(event["failure"])
        self._supervisor = standby
        self._control_lock = threading.Lock()
        self._end: _End | None = None
        self._asked_outcome: Outcome | None = None
        self._finished = threading.Event()
        threading.Thread(target=self._wait_for_end, name=f"job-{self.pid}", daemon=True).start()
        if self.failure:
            self.wait()

    @classmethod
    def start(
        cls,
        command: Sequence[str],
        device: Device,
        *,
        cwd: str | Path | None = None,
        environment: Mapping[str, str] | None = None,
        log_path: str | Path | None = None,
    ) -> "RunningProcess":
        """Start `command` on `device` and return once it runs.

        A command that cannot be run (not found, no permission, no such `cwd`) is no error here:
        the process has then finished with ``Outcome.FAILED``, and `failure` says why.

        Parameters
        ----------
        command : sequence of str, not empty
            Run without a shell; looked up on PATH.
        cwd : path, optional
            Working directory; by default this process's own.
        environment : mapping of str to str, optional
            Added to this process's environment; what binds it to `device` wins.
        log_path : path, optional
            Where its stdout and stderr are appended; by default they are dropped.

        Raises
        ------
        ClusterError
            If `command` is empty, the log cannot be written, or no process can be started.
        """
        standby = Standby(command, device, cwd=cwd, environment=environment, log_path=log_path)
        return cls(standby)

    @classmethod
    def begin(cls, standby: Standby) -> "RunningProcess":
        """Start the command of a standby, as `start` does, within a millisecond.

        Raises
        ------
        ClusterError
            If its supervisor has ended.
        """
        return cls(standby)

    def poll(self) -> Outcome | None:
        """Return how it ended, or None while it runs.

        ``OOM`` where the kernel killed it for memory, or where its log ends in a message of
        a failed allocation; what `terminate` was told where that ended it; otherwise ``OK`` for
        exit status 0 and ``FAILED`` for any other.
        """
        end = self._end
        if end is None:
            return None
        if end.returncode == 0:
            return Outcome.OK
        if self._asked_outcome is not None:
            return self._asked_outcome
        return Outcome.OOM if end.oom_killed else Outcome.FAILED

    def wait(self, timeout_s: float | None = None) -> Outcome | None:
        """Wait until it has ended, at most `timeout_s` seconds, and return as `poll` does."""
        self._finished.wait(timeout_s)
        return self.poll()

    def terminate(self, grace_s: float = 5.0, outcome: Outcome = Outcome.CANCELLED) -> Outcome:
        """End it: SIGTERM to its process group, after `grace_s` seconds SIGKILL to all of it.

        Parameters
        ----------
        outcome : Outcome
            What `poll` says from now on, unless it had already ended or exits with 0.
        """
        if self._end is None:
            self._asked_outcome = outcome
        self.send_signal(signal.SIGTERM)
        if not self._finished.wait(grace_s):
            self.send_signal(signal.SIGKILL)
            self._finished.wait()
        ended = self.poll()
        return outcome if ended is None else ended

    def send_signal(self, number: int) -> None:
        """Send a signal to its process group; does nothing once it has ended."""
        with self._control_lock:
            self._supervisor.send(number)

    @property
    def finished_time(self) -> float | None:
        """When it ended (s since 1970, UTC), exact and not from polling; None while it runs."""
        return None if self._end is None else self.started_time + self._end.runtime_s

    @property
    def runtime_s(self) -> float | None:
        """Fork to end by the monotonic clock (s); None while it runs."""
        return None if self._end is None else self._end.runtime_s

    @property
    def returncode(self) -> int | None:
        """Exit status, or minus the number of the signal that ended it; None while it runs."""
        return None if self._end is None else self._end.returncode

    @property
    def usage(self) -> ResourceUsage | None:
        """What it used in all; None while it runs, or where its supervisor was killed."""
        return None if self._end is None else self._end.usage

    def _wait_for_end(self) -> None:
        self._end = self._ended(self._supervisor.next_event())
        self._finished.set()
        self._supervisor.reap()
        with self._control_lock:
            self._supervisor.close()

    def _ended(self, event: dict[str, Any]) -> _End:
        if not event:  # the supervisor was killed, and the job with it
            return _End(time.time() - self.started_time, -signal.SIGKILL, None, oom_killed=False)
        returncode = os.waitstatus_to_exitcode(event["status"])
        killed = returncode in (-signal.SIGKILL, 128 + signal.SIGKILL)
        oom_killed = killed and _oom_kills() > self._oom_kills_before
        usage = _usage(event["rusage"])
        said = returncode != 0 and _says_out_of_memory(self.log_path, self._log_begin)
        return _End(event["runtime_s"], returncode, usage, oom_killed or said)


def _usage(rusage: dict[str, Any]) -> ResourceUsage:
    return ResourceUsage(
        user_s=rusage["ru_utime"],
        system_s=rusage["ru_stime"],
        peak_rss_mib=rusage["ru_maxrss"] / KIB,
        io_bytes=rusage["io_chars"],
    )


def _oom_kills() -> int:
    """How many processes the kernel has killed for memory since it booted."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/vmstat").read_text().splitlines():
            if line.startswith("oom_kill "):
                return int(line.split()[1])
    return 0


def _says_out_of_memory(log_path: Path | None, begin: int) -> bool:
    """Whether the log ends so; from `begin` on, since earlier runs may have written before it."""
    if log_path is None:
        return False
    with log_path.open("rb") as log:
        log.seek(max(begin, log.seek(0, os.SEEK_END) - LOG_TAIL_BYTES))
        tail = log.read().decode(errors="replace")
    return any(message in tail for message in MEMORY_MESSAGES)
