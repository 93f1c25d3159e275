"""What a job does on a CPU slot, as counted by the kernel for its process tree."""

import contextlib
import time
from dataclasses import dataclass

import psutil

from scheduler_client.local.processes import RunningProcess

MIB = 2**20


@dataclass(frozen=True, slots=True)
class _Counters:
    """Totals since the job started, at `elapsed_s`; the resident memory is of that moment."""

    elapsed_s: float
    user_s: float
    system_s: float
    io_bytes: int | None
    rss_mib: float | None
    written_bytes: int | None = None  # their part of io_bytes; not known after the end


class SlotMeter:
    """Measures the signals of a CPU slot (see `data.domain.SIGNALS`) over intervals.

    The counters of a process include those of the children it has waited for, so the sum over
    the living tree never falls when a child ends. The last interval is closed with the totals
    that the kernel gives when the job is reaped, so no CPU time or byte of it is lost.
    """

    def __init__(self, process: RunningProcess) -> None:
        self._process = process
        self._before: _Counters | None = None

    def restart(self) -> None:
        """Begin an interval now."""
        self._before = self._counters()

    def measure(self) -> tuple[float, dict[str, float]]:
        """Return the seconds since the interval began and its signals, and begin the next.

        Signals that cannot be read are left out; ``pcie_tx_bytes_per_s`` (written) and
        ``pcie_rx_bytes_per_s`` (read) are the parts of ``pcie_bytes_per_s``, known while the
        job lives. Nothing is measured (0 seconds) once the end
        of the job has been accounted.
        """
        before, now = self._before, self._counters()
        self._before = now
        if before is None or now is None or now.elapsed_s <= before.elapsed_s:
            return 0.0, {}
        return now.elapsed_s - before.elapsed_s, _signals(before, now)

    def peak_mem_mib(self) -> float | None:
        """Return the kernel's own record of the peak resident memory; known after the end."""
        usage = self._process.usage
        return None if usage is None else usage.peak_rss_mib

    def close(self) -> None:
        """Free what the meter holds: nothing."""

    def _counters(self) -> _Counters | None:
        usage, runtime_s = self._process.usage, self._process.runtime_s
        if usage is not None and runtime_s is not None:
            return _Counters(runtime_s, usage.user_s, usage.system_s, usage.io_bytes, None)
        with contextlib.suppress(psutil.NoSuchProcess):  # it ends just now: the end will tell
            return self._tree_counters()
        return None

    def _tree_counters(self) -> _Counters:
        root = psutil.Process(self._process.pid)
        cpu, io, rss = _of_one(root)
        user_s, system_s = cpu
        for child in root.children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                cpu, child_io, child_rss = _of_one(child)
                user_s, system_s, rss = user_s + cpu[0], system_s + cpu[1], rss + child_rss
                io = None if io is None or child_io is None else _both(io, child_io)
        elapsed_s = time.time() - self._process.started_time
        total, written = (None, None) if io is None else (sum(io), io[1])
        return _Counters(elapsed_s, user_s, system_s, total, rss / MIB, written)


def _both(one: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
    return one[0] + other[0], one[1] + other[1]


def _of_one(process: psutil.Process) -> tuple[tuple[float, float], tuple[int, int] | None, int]:
    with process.oneshot():
        times, rss = process.cpu_times(), process.memory_info().rss
    cpu = (times.user + times.children_user, times.system + times.children_system)
    try:
        io = process.io_counters()
    except psutil.AccessDenied:
        return cpu, None, rss
    return cpu, (io.read_chars, io.write_chars), rss


def _signals(before: _Counters, now: _Counters) -> dict[str, float]:
    seconds = now.elapsed_s - before.elapsed_s
    user = max(0.0, now.user_s - before.user_s) / seconds
    system = max(0.0, now.system_s - before.system_s) / seconds
    # The kernel counts in ticks of 10 ms, so a busy interval can seem fuller than full.
    signals = {"gpu_util": min(1.0, user + system), "sm_active": min(1.0, user)}
    if before.io_bytes is not None and now.io_bytes is not None:
        total = max(0, now.io_bytes - before.io_bytes) / seconds
        signals["pcie_bytes_per_s"] = total
        if before.written_bytes is not None and now.written_bytes is not None:
            written = max(0, now.written_bytes - before.written_bytes) / seconds
            signals["pcie_tx_bytes_per_s"] = min(written, total)
            signals["pcie_rx_bytes_per_s"] = total - min(written, total)
    if now.rss_mib is not None:
        signals["gpu_mem_mib"] = now.rss_mib
    return signals
