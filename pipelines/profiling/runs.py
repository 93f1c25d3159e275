"""One measurement: a command alone on a card, or two side by side on it."""

import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from data.domain import Outcome
from pipelines.profiling.workloads import Workload
from scheduler_client.local import nvml
from scheduler_client.local.devices import Device
from scheduler_client.local.processes import RunningProcess
from scheduler_client.local.sampling import Sampler
from scheduler_client.local.standby import Standby

POLL_S = 0.002  # within this time a finished neighbour is started again
SAMPLE_PERIOD_S = 0.2
FULL_OVERLAP = 0.9
"""A run counts as fully overlapped from here on: every restart of the neighbour leaves it alone for
some milliseconds, so the share never is exactly 1."""

EXCLUSIVE_ENOUGH = 0.05  # of the card's time may go to others: the kernel and its housekeeping


@dataclass(frozen=True, slots=True)
class Bench:
    """Where and how commands are measured.

    Attributes
    ----------
    device : Device
    logs : Path
        Folder of the commands' output, one file a job key.
    timeout_s : float
        The longest that any one run may take, in seconds (> 0).
    """

    device: Device
    logs: Path
    timeout_s: float = 600.0


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a command, from fork to end.

    Attributes
    ----------
    start_time, finish_time : float
        Seconds since 1970, UTC.
    runtime_s : float
        By the monotonic clock (s); interpreter start and imports are part of it.
    outcome : Outcome
    overlap : float, optional
        Share of the run during which the neighbour was there, in [0, 1]; None if exclusive.
    signals : dict of str to float
        Those of ``PROFILE_COLUMNS`` that were measured; empty unless exclusive.
    is_exclusive : bool
        Whether nothing else used the card, by measurement.
    """

    start_time: float
    finish_time: float
    runtime_s: float
    outcome: Outcome
    overlap: float | None = None
    signals: dict[str, float] = field(default_factory=dict)
    is_exclusive: bool = False


def exclusive_run(workload: Workload, bench: Bench) -> Run:
    """Run a command alone and sample its signals.

    Raises
    ------
    ClusterError
        If no process can be started at all.
    """
    card = _CardUse(bench.device)
    process = RunningProcess.begin(_standby(workload, bench))
    with ExitStack() as stack:
        stack.callback(process.terminate, 0.0)
        sampler = stack.enter_context(Sampler(process, bench.device, SAMPLE_PERIOD_S))
        if process.wait(bench.timeout_s) is None:
            process.terminate(0.0, Outcome.TIMEOUT)
    run = _ended(process)
    return Run(
        run.start_time,
        run.finish_time,
        run.runtime_s,
        run.outcome,
        signals=sampler.summary(),
        is_exclusive=card.foreign([process]) <= EXCLUSIVE_ENOUGH,
    )


def paired_runs(first: Workload, second: Workload, bench: Bench) -> tuple[Run, Run]:
    """Run two commands side by side on one card and return one run of each.

    Whichever ends first is started again at once, and again, until the other has ended too; what
    still runs then is killed. So each side ends at least once, always beside its neighbour. Of a
    side's runs that the neighbour overlapped fully, the one of median runtime is returned (the
    lower of the two middle ones), or the most overlapped one if none was. As soon as a run fails
    or takes too long, both are stopped: that side returns the failed run, the other ``CANCELLED``
    unless it had ended.

    Raises
    ------
    ClusterError
        If no process can be started at all.
    """
    sides: list[_Side] = []
    try:
        sides += [_Side(first, bench)]
        sides += [_Side(second, bench)]
        for side in sides:
            side.wait_until_ready()
        for side in sides:
            side.start()
        while not _is_over(sides):
            time.sleep(POLL_S)
            for side in sides:
                side.advance()
            for side in sides:
                if side.running is None and not _is_over(sides):
                    side.start()
    finally:
        for side in sides:
            side.stop()
    return sides[0].chosen(sides[1]), sides[1].chosen(sides[0])


class _Side:
    """One of two commands that share a card: its runs so far, and the one in progress."""

    def __init__(self, workload: Workload, bench: Bench) -> None:
        self._workload, self._bench = workload, bench
        self.running: RunningProcess | None = None
        self.ended: list[Run] = []
        self._cut_off: Run | None = None
        self._next: Standby | None = _standby(workload, bench)

    def wait_until_ready(self) -> None:
        if self._next is not None:
            self._next.wait_until_ready()

    def start(self) -> None:
        standby, self._next = self._next or _standby(self._workload, self._bench), None
        self.running = RunningProcess.begin(standby)

    def advance(self) -> None:
        """Note the end of the run in progress, or stop it if it takes too long.

        While it runs, the next one is made ready; not before, so that it is in no one's way.
        """
        process = self.running
        if process is None:
            return
        if self._next is None:
            self._next = _standby(self._workload, self._bench)
        if process.poll() is None and time.time() - process.started_time > self._bench.timeout_s:
            process.terminate(0.0, Outcome.TIMEOUT)
        if process.poll() is not None:
            self.ended.append(_ended(process))
            self.running = None

    def stop(self) -> None:
        if self.running is not None:
            self.running.terminate(0.0)
            self._cut_off = _ended(self.running)
            self.running = None
        if self._next is not None:
            self._next.close()
            self._next.reap()

    def chosen(self, neighbour: "_Side") -> Run:
        """Return the run that stands for this side."""
        runs = [_overlapped(run, neighbour.runs) for run in self.ended or self.runs]
        failed = [run for run in runs if run.outcome is not Outcome.OK]
        if failed:
            return failed[0]
        full = [run for run in runs if (run.overlap or 0.0) >= FULL_OVERLAP]
        if not full:
            return max(runs, key=lambda run: run.overlap or 0.0)
        return sorted(full, key=lambda run: run.runtime_s)[(len(full) - 1) // 2]

    @property
    def runs(self) -> list[Run]:
        return self.ended if self._cut_off is None else [*self.ended, self._cut_off]


def _is_over(sides: Sequence[_Side]) -> bool:
    failed = any(run.outcome is not Outcome.OK for side in sides for run in side.ended)
    return failed or all(side.ended for side in sides)


def _overlapped(run: Run, neighbours: Sequence[Run]) -> Run:
    shared_s = sum(
        max(0.0, min(run.finish_time, one.finish_time) - max(run.start_time, one.start_time))
        for one in neighbours
    )
    overlap = min(1.0, shared_s / run.runtime_s) if run.runtime_s > 0 else 0.0
    return Run(run.start_time, run.finish_time, run.runtime_s, run.outcome, overlap)


def _standby(workload: Workload, bench: Bench) -> Standby:
    return Standby(
        workload.command,
        bench.device,
        cwd=workload.cwd,
        environment=workload.env,
        log_path=bench.logs / f"{workload.name.replace('/', '_')}.log",
    )


def _ended(process: RunningProcess) -> Run:
    outcome, runtime_s = process.wait(), process.runtime_s
    if outcome is None or runtime_s is None:
        raise AssertionError("a process that was waited for without a limit has ended")
    started_time = process.started_time
    return Run(started_time, started_time + runtime_s, runtime_s, outcome)


class _CardUse:
    """Measures how much of a card's time others took while our processes ran on it."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._begun_s = time.monotonic()
        self._busy_s = _core_busy_s(device)
        self._is_occupied = device.kind == "gpu" and nvml.compute_processes(device.uuid) > 0

    def foreign(self, processes: Sequence[RunningProcess]) -> float:
        """Return the share in [0, 1]; of a GPU 1 if another process was on it before, else 0."""
        if self._device.kind == "gpu":
            return float(self._is_occupied)
        usages = [process.usage for process in processes]
        own_s = sum(usage.user_s + usage.system_s for usage in usages if usage is not None)
        busy_s = _core_busy_s(self._device) - self._busy_s
        return max(0.0, busy_s - own_s) / (time.monotonic() - self._begun_s)


def _core_busy_s(device: Device) -> float:
    if device.kind == "gpu":
        return 0.0
    times = psutil.cpu_times(percpu=True)[device.index]
    # guest time is already part of user time, guest_nice of nice
    return float(times.user + times.nice + times.system + times.irq + times.softirq + times.steal)
