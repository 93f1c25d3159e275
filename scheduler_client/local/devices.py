"""The cards of this machine: NVIDIA GPUs where NVML finds any, else one slot per CPU core."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import psutil

from data.errors import ClusterError
from scheduler_client.local import nvml

DeviceKind = Literal["gpu", "cpu"]
CPU_SLOT_MODEL = "cpu"
THREAD_LIMITS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
MIB = 2**20
_CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")


@dataclass(frozen=True, slots=True)
class Device:
    """One card that jobs are placed on.

    Attributes
    ----------
    card_id : str
        Unique on this machine: ``gpu0``, ``cpu1``.
    kind : {"gpu", "cpu"}
    index : int
        NVML index of the GPU, or number of the CPU core.
    model : str
        GPU product name, or ``cpu`` for every CPU slot.
    mem_mib : int
        Memory of the GPU; of a CPU slot, its equal share of this machine's memory (MiB).
    uuid : str
        NVML's UUID, by which a process is bound to the GPU; the card id for a CPU slot.
    """

    card_id: str
    kind: DeviceKind
    index: int
    model: str
    mem_mib: int
    uuid: str

    @property
    def cores(self) -> tuple[int, ...]:
        """The CPU cores that a process on this card is pinned to; empty: not pinned."""
        return (self.index,) if self.kind == "cpu" else ()


def discover(max_slots: int | None = None, kind: DeviceKind | None = None) -> tuple[Device, ...]:
    """Return the cards of this machine, in the order of their index.

    Parameters
    ----------
    max_slots : int, optional
        At most so many cards (>= 1).
    kind : {"gpu", "cpu"}, optional
        Only this kind; by default GPUs where there are any, else CPU slots.

    Raises
    ------
    ClusterError
        If `max_slots` is below 1, or GPUs were asked for and NVML finds none.
    """
    if max_slots is not None and max_slots < 1:
        raise ClusterError(f"max_slots must be at least 1, got {max_slots}")
    devices = _gpus() if kind != "cpu" else ()
    if kind == "gpu" and not devices:
        raise ClusterError("found no NVIDIA GPU through NVML, wanted at least one (nvidia-smi -L)")
    return (devices or _cpu_slots(max_slots))[:max_slots]


def environment(device: Device) -> dict[str, str]:
    """Return the environment variables that bind a process to `device`.

    A GPU is named by its UUID, which unlike an index means the same to every library. On a CPU
    slot the numeric libraries get one thread, since the process has one core.

    Examples
    --------
    >>> environment(Device("gpu0", "gpu", 0, "NVIDIA H200", 143771, "GPU-6fc2"))
    {'CUDA_VISIBLE_DEVICES': 'GPU-6fc2'}
    >>> environment(Device("cpu1", "cpu", 1, "cpu", 4096, "cpu1"))["OMP_NUM_THREADS"]
    '1'
    """
    if device.kind == "gpu":
        return {"CUDA_VISIBLE_DEVICES": device.uuid}
    return dict.fromkeys(THREAD_LIMITS, "1")


def _gpus() -> tuple[Device, ...]:
    return tuple(
        Device(f"gpu{gpu.index}", "gpu", gpu.index, gpu.model, gpu.mem_mib, gpu.uuid)
        for gpu in nvml.gpus()
    )


def _cpu_slots(max_slots: int | None) -> tuple[Device, ...]:
    cores = sorted(os.sched_getaffinity(0))[:max_slots]
    mem_mib = _usable_memory_mib() // len(cores)
    return tuple(
        Device(f"cpu{core}", "cpu", core, CPU_SLOT_MODEL, mem_mib, f"cpu{core}") for core in cores
    )


def _usable_memory_mib() -> int:
    """Memory of the machine or, in a container, what its cgroup may use."""
    total = psutil.virtual_memory().total
    try:
        limit = _CGROUP_LIMIT.read_text().strip()
    except OSError:
        limit = "max"
    return min(total, int(limit)) // MIB if limit.isdigit() else total // MIB
