"""Start long-lived processes, wait until each answers, and end all of them together."""

import contextlib
import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from data.errors import ServiceStartError

STOP_GRACE_S = 10.0
TAIL_LINES = 8
MOST_RESTARTS = 3


@dataclass(frozen=True, slots=True)
class Service:
    """A process to start.

    Attributes
    ----------
    name : str
        Names the log file and every message.
    command : sequence of str
    environment : mapping of str to str
        The whole environment of the process.
    port : int, optional
        Loopback port that must be free before the start.
    ready_url : str, optional
        Answers 200 when the service is ready; without one it is ready at once.
    ready_timeout_s : float
    """

    name: str
    command: tuple[str, ...]
    environment: dict[str, str]
    port: int | None = None
    ready_url: str | None = None
    ready_timeout_s: float = 60.0


@dataclass(slots=True)
class ServiceGroup:
    """Services that live and end together; each logs to ``<log_directory>/<name>.log``."""

    log_directory: Path
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    services: dict[str, Service] = field(default_factory=dict)
    restarts: Counter[str] = field(default_factory=Counter)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def log_path(self, name: str) -> Path:
        """Return the file that holds what the service called `name` said."""
        return self.log_directory / f"{name}.log"

    def start(self, service: Service) -> None:
        """Start `service` in its own process group, without waiting for it.

        Raises
        ------
        ServiceStartError
            If its port is taken, or its command or its log file cannot be opened.
        """
        if service.port is not None:
            refuse_taken_port(service.name, service.port)
        self.services[service.name] = service
        try:
            self.log_directory.mkdir(parents=True, exist_ok=True)
            with self.log_path(service.name).open("ab") as log:
                self.processes[service.name] = subprocess.Popen(
                    service.command,
                    env=service.environment,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    stdin=subprocess.DEVNULL,
                    start_new_session=True,
                )
        except OSError as error:
            raise ServiceStartError(
                f"{service.name} did not start: {error}; wanted {service.command[0]} to be "
                f"executable and {self.log_directory} to be writable with free space"
            ) from error

    def wait_ready(self, service: Service, clock: Callable[[], float] = time.monotonic) -> None:
        """Wait until `service` answers on its ready URL.

        Raises
        ------
        ServiceStartError
            If it ends or stays silent for ``ready_timeout_s``; shows the end of its log.
        """
        if service.ready_url is None:
            return
        deadline = clock() + service.ready_timeout_s
        while clock() < deadline:
            if self.processes[service.name].poll() is not None:
                raise ServiceStartError(f"{service.name} ended at once:\n{self._tail(service)}")
            if answers(service.ready_url):
                return
            time.sleep(0.1)
        raise ServiceStartError(
            f"{service.name} did not answer on {service.ready_url} within "
            f"{service.ready_timeout_s:g} s:\n{self._tail(service)}"
        )

    def ended(self) -> list[str]:
        """Return the names of services that are no longer running."""
        return [name for name, process in self.processes.items() if process.poll() is not None]

    def keep_up(self) -> list[str]:
        """Start services that ended by themselves again, and return their names.

        Raises
        ------
        ServiceStartError
            If one has ended more than ``MOST_RESTARTS`` times, or cannot be started.
        """
        ended = self.ended()
        for name in ended:
            if self.restarts[name] >= MOST_RESTARTS:
                raise ServiceStartError(
                    f"{name} ended {MOST_RESTARTS + 1} times:\n{self._tail(self.services[name])}"
                )
            self.restarts[name] += 1
            self.stop([name])  # what its process group left behind
            self.start(self.services[name])
        return ended

    def stop(self, names: Sequence[str] | None = None) -> None:
        """End services, last started first: SIGTERM to each group, SIGKILL after the grace."""
        chosen = [name for name in reversed(self.processes) if names is None or name in names]
        for name in chosen:
            _signal_group(self.processes[name], signal.SIGTERM)
        deadline = time.monotonic() + STOP_GRACE_S
        for name in chosen:
            process = self.processes.pop(name)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, deadline - time.monotonic()))
            # Workers outlive the leader of their group by what they still have to finish.
            while _has_members(process.pid) and time.monotonic() < deadline:
                time.sleep(0.02)
            _signal_group(process, signal.SIGKILL)
            process.wait()

    def _tail(self, service: Service) -> str:
        lines = self.log_path(service.name).read_text(errors="replace").splitlines()
        return "\n".join(f"  {line}" for line in lines[-TAIL_LINES:])


def refuse_taken_port(name: str, port: int) -> None:
    """Raise if something already listens on a loopback port.

    Raises
    ------
    ServiceStartError
        Names the port and the environment variable that moves it.
    """
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            variable = f"COLOCAST_{name.upper()}_PORT"
            raise ServiceStartError(
                f"port {port} for {name} is taken ({error.strerror}); "
                f"stop what listens there, or choose another with {variable}"
            ) from error


def answers(url: str, timeout_s: float = 1.0) -> bool:
    """Return whether `url` (http, loopback) answers with a 2xx status now."""
    try:
        with urllib.request.urlopen(url, timeout=timeout_s) as response:  # noqa: S310 - loopback
            return bool(200 <= response.status < 300)
    except (urllib.error.URLError, OSError, ValueError):
        return False


def _signal_group(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


def _has_members(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True
