"""Profiles of running jobs: the signals of a card sampled over a job's exclusive intervals."""

import threading
from collections import defaultdict
from types import TracebackType
from typing import Protocol, Self

import numpy as np

from data.domain import SIGNALS
from data.errors import SettingError
from scheduler_client.local.devices import Device
from scheduler_client.local.gpu_meter import GpuMeter
from scheduler_client.local.processes import RunningProcess
from scheduler_client.local.slot_meter import SlotMeter


class Meter(Protocol):
    """Measures signals over intervals; signals it cannot read are left out of the answer."""

    def restart(self) -> None:
        """Begin an interval now."""

    def measure(self) -> tuple[float, dict[str, float]]:
        """Return the seconds since the interval began and its signals, and begin the next."""

    def peak_mem_mib(self) -> float | None:
        """Return a peak that was recorded apart from the samples."""

    def close(self) -> None:
        """Free what the meter holds."""


class Sampler:
    """Samples the signals of one job on one card, from a thread of its own.

    Telemetry of a shared card belongs to no single job: call `pause` when a neighbour arrives
    and `resume` when it has left. The memory peak of a CPU slot is the process's own and
    therefore covers the whole run.

    Parameters
    ----------
    process : RunningProcess
    device : Device
        The card it runs on.
    period_s : float
        Seconds between samples (> 0). CPU slots count in ticks of 10 ms and NVML averages over
        100 ms or more: below 0.1 s a sample is mostly noise.

    Raises
    ------
    SettingError
        If `period_s` is not positive.
    """

    def __init__(self, process: RunningProcess, device: Device, period_s: float = 0.2) -> None:
        if not period_s > 0:
            raise SettingError(f"period_s must be above 0, got {period_s}")
        self._period_s = period_s
        self._meter: Meter = GpuMeter(device) if device.kind == "gpu" else SlotMeter(process)
        self._samples: dict[str, list[tuple[float, float]]] = defaultdict(list)
        self._lock = threading.Lock()
        self._is_paused = False
        self._stopped = threading.Event()
        name = f"sampler-{process.pid}"
        self._thread = threading.Thread(target=self._sample_until_stopped, name=name, daemon=True)

    def start(self) -> None:
        """Begin to sample."""
        self._meter.restart()
        self._thread.start()

    def pause(self) -> None:
        """Leave out what follows; what was measured up to now counts."""
        with self._lock:
            self._take()
            self._is_paused = True

    def resume(self) -> None:
        """Begin to sample again."""
        with self._lock:
            if self._is_paused:
                self._meter.restart()
            self._is_paused = False

    def stop(self) -> None:
        """End sampling; of a job that has ended, its last moments are still accounted."""
        self._stopped.set()
        self._thread.join()
        self._take()
        self._meter.close()

    def summary(self) -> dict[str, float]:
        """Return the measured ones of ``PROFILE_COLUMNS``; what was not measured is absent.

        Means and standard deviations are weighted by the length of the sampled intervals.
        """
        with self._lock:
            measured = {name: self._samples[name] for name in SIGNALS if self._samples[name]}
            moments = {
                f"{name}_{moment}": value
                for name, samples in measured.items()
                for moment, value in zip(("mean", "std"), _moments(samples), strict=True)
            }
            peaks = [value for _, value in measured.get("gpu_mem_mib", [])]
        recorded = self._meter.peak_mem_mib()
        peaks += [] if recorded is None else [recorded]
        return moments | ({"gpu_mem_peak_mib": max(peaks)} if peaks else {})

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def _sample_until_stopped(self) -> None:
        while not self._stopped.wait(self._period_s):
            with self._lock:
                self._take()

    def _take(self) -> None:
        if self._is_paused:
            return
        seconds, signals = self._meter.measure()
        if seconds > 0:
            for name, value in signals.items():
                self._samples[name].append((seconds, value))


def _moments(samples: list[tuple[float, float]]) -> tuple[float, float]:
    seconds, values = np.array(samples, dtype=np.float64).T
    mean = float(np.average(values, weights=seconds))
    return mean, float(np.sqrt(np.average((values - mean) ** 2, weights=seconds)))
