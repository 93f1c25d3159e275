"""The parent of exactly one job: starts it pinned, times it, and never lets it outlive us.

`RunningProcess` runs this file as a program of its own (standard library only), one a job:

- It is single-threaded, so what must happen between fork and exec (session, CPU affinity,
  parent-death signal) is safe, which it is not in a scheduler with threads.
- It sleeps until the job or the scheduler ends, so both moments are exact, not sampled.
- It is the subreaper of the job's descendants: when the job ends, or the scheduler is gone in
  whatever way, it kills and reaps all of them.

Protocol: argv is ``PARENT_PID CORES CWD COMMAND...`` (cores joined by commas, both may be
empty); the first byte on stdin starts the job, each further one is a signal for its process
group; stdout carries JSON lines: when it is ready, when the job has started (or could not), and
when that has finished; stderr is the job's log.
"""

import contextlib
import ctypes
import json
import os
import select
import signal
import sys
import time
from pathlib import Path
from typing import NoReturn

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
CONTROL_FD, REPORT_FD, LOG_FD = 0, 1, 2
EXEC_FAILED = 127  # what a shell answers for a command that it cannot run


def main(arguments: list[str]) -> int:
    """Run the command in `arguments` to its end; return 0 once that is reported."""
    parent_pid, cores, cwd, *command = arguments
    _prctl(PR_SET_CHILD_SUBREAPER, 1)
    parent = os.pidfd_open(int(parent_pid))
    if os.getppid() != int(parent_pid):
        return 1  # the scheduler died before we could watch it
    report({"ready": True})
    if not has_word_to_start(parent):
        return 0
    started_time, started_s = time.time(), time.monotonic()
    pid, failure = start(command, [int(core) for core in cores.split(",") if core], cwd)
    report({"pid": pid, "started_time": started_time, "failure": failure})
    watch(pid, parent)
    runtime_s = time.monotonic() - started_s
    usage = {"io_chars": io_chars(pid)}
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)  # what the job left in the background
    _, status, rusage = os.wait4(pid, 0)
    sweep()
    usage |= {name: getattr(rusage, name) for name in dir(rusage) if name.startswith("ru_")}
    report({"runtime_s": runtime_s, "status": status, "rusage": usage})
    return 0


def has_word_to_start(parent: int) -> bool:
    """Wait for the first byte; False if the scheduler does not want to start it after all."""
    poller = select.poll()
    poller.register(parent, select.POLLIN)
    poller.register(CONTROL_FD, select.POLLIN)
    ready = [descriptor for descriptor, _ in poller.poll()]
    return parent not in ready and os.read(CONTROL_FD, 1) != b""


def start(command: list[str], cores: list[int], cwd: str) -> tuple[int, str]:
    """Start `command`; return its pid and why it could not be run ("" if it runs)."""
    failure, told = os.pipe()  # closed by a successful exec, so an empty answer means success
    supervisor = os.getpid()
    pid = os.fork()
    if pid == 0:
        become(command, cores, cwd, told, supervisor)
    os.close(told)
    with os.fdopen(failure, "rb") as answer:
        return pid, answer.read().decode(errors="replace")


def become(
    command: list[str], cores: list[int], cwd: str, told: int, supervisor: int
) -> NoReturn:  # pragma: no cover - ends in exec, where coverage cannot report
    """Turn this forked process into the job; never returns."""
    try:
        os.setsid()
        _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != supervisor:
            os._exit(EXEC_FAILED)
        if cores:
            os.sched_setaffinity(0, cores)
        if cwd:
            os.chdir(cwd)
        os.dup2(os.open(os.devnull, os.O_RDONLY), CONTROL_FD)
        os.dup2(LOG_FD, REPORT_FD)
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # Python ignores it, a job must not
        os.execvp(command[0], command)  # noqa: S606 - a user's command, without a shell
    except (OSError, ValueError) as error:  # ValueError: an empty program name
        os.write(told, str(error).encode())
    finally:
        os._exit(EXEC_FAILED)


def watch(pid: int, parent: int) -> None:
    """Return once the job has ended; pass on signals, and kill it when the scheduler dies."""
    job = os.pidfd_open(pid)
    poller = select.poll()
    for descriptor in (job, parent, CONTROL_FD):
        poller.register(descriptor, select.POLLIN)
    while True:
        ready = [descriptor for descriptor, _ in poller.poll()]
        if job in ready:
            return
        signals = os.read(CONTROL_FD, 1) if CONTROL_FD in ready else b""
        if parent in ready or not signals:
            poller = select.poll()
            poller.register(job, select.POLLIN)
            signals = bytes([signal.SIGKILL])
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signals[0])


def sweep() -> None:
    """Kill and reap every descendant that the job left behind, also those in other sessions."""
    children = Path(f"/proc/self/task/{os.getpid()}/children")
    while children.exists():  # a kernel without it leaves what changed its session to init
        for child in children.read_text().split():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(int(child), signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def io_chars(pid: int) -> int | None:
    """Return the bytes that the ended, not yet reaped job read and wrote; None if unreadable."""
    try:
        lines = Path(f"/proc/{pid}/io").read_text().splitlines()
    except OSError:
        return None
    counts = dict(line.split(": ") for line in lines)
    return int(counts["rchar"]) + int(counts["wchar"])


def report(event: dict[str, object]) -> None:
    """Write one JSON line; a scheduler that has died needs none."""
    with contextlib.suppress(BrokenPipeError):
        os.write(REPORT_FD, json.dumps(event).encode() + b"\n")


def _prctl(option: int, value: int) -> None:
    if ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl({option}) failed")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
