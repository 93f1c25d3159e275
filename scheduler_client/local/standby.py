"""A supervisor that is up and waits for the word to start its command."""

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from data.errors import ClusterError
from scheduler_client.local import devices, supervisor
from scheduler_client.local.devices import Device


class Standby:
    """One command, ready to start within a millisecond; used once, by `RunningProcess.begin`.

    Starting an interpreter takes tens of milliseconds. Whoever measures wants that to be over
    before the clock starts.

    Parameters
    ----------
    command : sequence of str, not empty
        Run without a shell; looked up on PATH.
    device : Device
        The card it will be bound to.
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

    def __init__(
        self,
        command: Sequence[str],
        device: Device,
        *,
        cwd: str | Path | None = None,
        environment: Mapping[str, str] | None = None,
        log_path: str | Path | None = None,
    ) -> None:
        if not command:
            raise ClusterError("found an empty command, wanted at least a program name")
        self.device, self._program = device, command[0]
        self.log_path = None if log_path is None else Path(log_path)
        arguments = [",".join(map(str, device.cores)), "" if cwd is None else str(cwd), *command]
        variables = {**os.environ, **(environment or {}), **devices.environment(device)}
        try:
            self._supervisor = _spawned(arguments, variables, self.log_path)
        except (OSError, ValueError) as error:  # ValueError: a null byte in an argument
            raise ClusterError(f"cannot start {self._program!r}: {error}") from error
        self._is_ready = False

    def wait_until_ready(self) -> None:
        """Wait until the supervisor is up.

        Raises
        ------
        ClusterError
            If the supervisor has ended instead.
        """
        if not self._is_ready:
            self._expected_event()
            self._is_ready = True

    def go(self) -> dict[str, Any]:
        """Start the command; return the supervisor's report of it.

        Raises
        ------
        ClusterError
            If the supervisor has ended instead.
        """
        self.wait_until_ready()
        self.send(0)
        return self._expected_event()

    def _expected_event(self) -> dict[str, Any]:
        event = self.next_event()
        if not event:
            status = self._supervisor.wait()
            self.close()
            found = f"its supervisor ended with {status}"
            raise ClusterError(
                f"cannot start {self._program!r}: {found}, wanted Linux 5.3 or newer"
            )
        return event

    def send(self, byte: int) -> None:
        """Write one byte to the supervisor; does nothing once that has ended."""
        control = self._supervisor.stdin
        with contextlib.suppress(OSError):  # it may just have ended
            if control is not None and not control.closed:
                control.write(bytes([byte]))

    def next_event(self) -> dict[str, Any]:
        """Wait for the supervisor's next report; empty if it ended without one."""
        reports = self._supervisor.stdout
        line = reports.readline() if reports is not None else b""
        return dict(json.loads(line)) if line else {}

    def reap(self) -> None:
        """Wait for the end of the supervisor itself."""
        self._supervisor.wait()

    def close(self) -> None:
        """Close the pipes; a supervisor that has not started its command then ends."""
        for pipe in (self._supervisor.stdin, self._supervisor.stdout):
            if pipe is not None:
                pipe.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
        self.reap()


def _spawned(
    arguments: Sequence[str], variables: Mapping[str, str], log_path: Path | None
) -> "subprocess.Popen[bytes]":
    program = [sys.executable, "-I", supervisor.__file__, str(os.getpid())]
    with Path(os.devnull if log_path is None else log_path).open("ab") as log:
        return subprocess.Popen(
            [*program, *arguments],
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            env=variables,
            start_new_session=True,  # Ctrl-C in a terminal reaches us, not the jobs
        )
