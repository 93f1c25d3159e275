"""The signals of this machine's cards as they are now, and who holds which: for the exporter."""

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from data.errors import SettingError
from scheduler_client.clusters import Launch
from scheduler_client.local.devices import Device
from scheduler_client.local.gpu_meter import GpuMeter
from scheduler_client.local.processes import RunningProcess
from scheduler_client.local.slot_meter import SlotMeter

STALE_PERIODS = 3
"""After so many periods without a new one, a reading is no longer shown."""
IDLE_SLOT = {
    "gpu_util": 0.0,
    "sm_active": 0.0,
    "gpu_mem_mib": 0.0,
    "pcie_tx_bytes_per_s": 0.0,
    "pcie_rx_bytes_per_s": 0.0,
}
SHARES = ("gpu_util", "sm_active")


@dataclass(frozen=True, slots=True)
class CardReading:
    """What was measured on one card over the newest period.

    Attributes
    ----------
    signals : mapping of str to float
        By names of ``data.domain.SIGNALS``, and both directions of PCIe; what could not be
        measured is absent.
    """

    device: Device
    signals: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Tenancy:
    """One job on one card."""

    device: Device
    job_id: str
    attempt: int
    job_key: str


@dataclass(slots=True)
class _Run:
    launch: Launch
    meter: SlotMeter


class LiveSignals:
    """Measures all cards every period, from a thread of its own, whoever is on them.

    A GPU is measured as a whole through NVML. A CPU slot is no device with counters: its
    reading is the sum over the processes of the jobs on it, each over the time it was there
    (of a gang, an equal part for each of its slots).

    Parameters
    ----------
    devices : sequence of Device
    period_s : float
        A reading covers so many seconds (> 0).

    Raises
    ------
    SettingError
        If `period_s` is not positive.
    """

    def __init__(self, devices: Sequence[Device], period_s: float = 1.0) -> None:
        if not period_s > 0:
            raise SettingError(f"period_s must be above 0, got {period_s}")
        self._devices = {device.card_id: device for device in devices}
        self._period_s = period_s
        self._meters = {d.card_id: GpuMeter(d) for d in devices if d.kind == "gpu"}
        self._runs: dict[str, _Run] = {}
        self._signals: dict[str, Mapping[str, float]] = {}
        self._measured_s = float("-inf")
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._measure_on, name="live-signals", daemon=True)

    def entered(self, launch: Launch, process: RunningProcess) -> None:
        """Take in that a job runs on its cards."""
        run = _Run(launch, SlotMeter(process))
        run.meter.restart()
        with self._lock:
            self._runs[launch.job_id] = run

    def left(self, job_id: str) -> None:
        """Take in that a job has ended."""
        with self._lock:
            self._runs.pop(job_id, None)

    def readings(self) -> tuple[CardReading, ...]:
        """Return the newest reading of every card; none when they are not measured any more."""
        with self._lock:
            if time.monotonic() - self._measured_s > STALE_PERIODS * self._period_s:
                return ()
            return tuple(
                CardReading(self._devices[card_id], signals)
                for card_id, signals in self._signals.items()
            )

    def tenancies(self) -> tuple[Tenancy, ...]:
        """Return who is on which card at this moment."""
        with self._lock:
            launches = [run.launch for run in self._runs.values()]
        return tuple(
            Tenancy(self._devices[card_id], launch.job_id, launch.attempt, launch.job_key)
            for launch in launches
            for card_id in launch.card_ids
        )

    def measure(self) -> None:
        """Take one reading of every card."""
        with self._lock:
            runs = tuple(self._runs.values())
        signals: dict[str, Mapping[str, float]] = dict(self._slots(runs))
        signals |= {card_id: meter.measure()[1] for card_id, meter in self._meters.items()}
        with self._lock:
            self._signals, self._measured_s = signals, time.monotonic()

    def __enter__(self) -> Self:
        for meter in self._meters.values():
            meter.restart()
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stopped.set()
        self._thread.join()
        for meter in self._meters.values():
            meter.close()

    def _measure_on(self) -> None:
        while not self._stopped.wait(self._period_s):
            self.measure()

    def _slots(self, runs: Sequence[_Run]) -> dict[str, dict[str, float]]:
        slots = [d.card_id for d in self._devices.values() if d.kind == "cpu"]
        totals = {card_id: dict(IDLE_SLOT) for card_id in slots}
        for run in runs:
            members = [card_id for card_id in run.launch.card_ids if card_id in totals]
            seconds, measured = run.meter.measure() if members else (0.0, {})
            for card_id in members if seconds > 0 else ():
                _add(totals[card_id], measured, len(members))
        return totals


def _add(total: dict[str, float], measured: Mapping[str, float], members: int) -> None:
    """Add one job's part to what is on a slot; what it does not give is unknown for the slot."""
    for name in tuple(total):
        if name not in measured:
            del total[name]
            continue
        both = total[name] + measured[name] / (1 if name in SHARES else members)
        total[name] = min(1.0, both) if name in SHARES else both
