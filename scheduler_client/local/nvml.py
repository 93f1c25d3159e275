"""What NVML says of NVIDIA GPUs; what it cannot say is missing (None), never zero."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

MIB = 2**20
PERCENT = 100.0
MOST_PCIE_BYTES_PER_S = 1e12  # far above PCIe 6.0 x16; NVML's "blank" values lie above it


@dataclass(frozen=True, slots=True)
class Gpu:
    """One physical GPU: its NVML index, UUID, product name and memory (MiB)."""

    index: int
    uuid: str
    model: str
    mem_mib: int


def library() -> ModuleType | None:
    """Return the initialised NVML binding, or None on a machine without NVIDIA's driver."""
    try:
        import pynvml  # noqa: PLC0415 - loads only where devices are asked for
    except ImportError:
        return None
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return None
    return pynvml  # type: ignore[no-any-return]  # the binding has no type information


def gpus() -> tuple[Gpu, ...]:
    """Return the physical GPUs that NVML finds; empty without a driver.

    A GPU whose UUID or memory cannot be read (fallen off the bus, for instance) is left out:
    nothing could be placed on it.
    """
    nvml = library()
    if nvml is None:
        return ()
    count = reading(nvml, nvml.nvmlDeviceGetCount) or 0
    found = (_gpu(nvml, index) for index in range(int(count)))
    return tuple(gpu for gpu in found if gpu is not None)


def _gpu(nvml: ModuleType, index: int) -> Gpu | None:
    handle = reading(nvml, nvml.nvmlDeviceGetHandleByIndex, index)
    if handle is None:
        return None
    uuid = reading(nvml, nvml.nvmlDeviceGetUUID, handle)
    name = reading(nvml, nvml.nvmlDeviceGetName, handle)
    memory = reading(nvml, nvml.nvmlDeviceGetMemoryInfo, handle)
    if uuid is None or name is None or memory is None:
        return None
    return Gpu(index, _text(uuid), _text(name), int(memory.total) // MIB)


def driver_version() -> str | None:
    """Return the version of NVIDIA's driver, or None without one."""
    nvml = library()
    version = None if nvml is None else reading(nvml, nvml.nvmlSystemGetDriverVersion)
    return None if version is None else _text(version)


def compute_processes(uuid: str) -> int:
    """Return how many processes have a compute context on the GPU `uuid`, as far as NVML sees."""
    nvml = library()
    handle = None if nvml is None else reading(nvml, nvml.nvmlDeviceGetHandleByUUID, uuid)
    if nvml is None or handle is None:
        return 0
    return len(reading(nvml, nvml.nvmlDeviceGetComputeRunningProcesses, handle) or ())


def reading(nvml: ModuleType, call: Callable[..., Any], *arguments: object) -> Any:
    """Return what an NVML call answers, or None where it fails or is not supported."""
    try:
        return call(*arguments)
    except nvml.NVMLError:
        return None


def within(value: float | None, high: float) -> float | None:
    """Return `value` if it lies in [0, `high`], else None: NVML marks blanks by huge values.

    Examples
    --------
    >>> within(35, 100), within(2147483632, 100), within(float("nan"), 100), within(None, 100)
    (35.0, None, None, None)
    """
    if value is None or not math.isfinite(value) or not 0 <= value <= high:
        return None
    return float(value)


def ratio(percent: float | None) -> float | None:
    """Return a percentage as a ratio in [0, 1], or None where it is no percentage.

    Examples
    --------
    >>> ratio(35), ratio(255)
    (0.35, None)
    """
    valid = within(percent, PERCENT)
    return None if valid is None else valid / PERCENT


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
