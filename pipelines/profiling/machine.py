"""What kind of machine measured; no host name, no address, no user."""

import os
import platform
from pathlib import Path

import psutil

from scheduler_client.local import nvml
from scheduler_client.local.devices import Device

MIB = 2**20
_CPUINFO = Path("/proc/cpuinfo")
_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")


def machine_facts(device: Device) -> dict[str, object]:
    """Return the facts that decide how fast this machine is, for ``machine.json``.

    Keys: ``cpu_model``, ``is_virtual``, ``cores`` (usable), ``caches`` (of the first core),
    ``memory_mib``, ``kernel``, ``python``, ``device`` (model of the card measured on),
    ``gpu_driver`` (null without one).
    """
    cpu = _cpuinfo()
    return {
        "cpu_model": cpu.get("model name", platform.machine()),
        "is_virtual": "hypervisor" in cpu.get("flags", "").split(),
        "cores": len(os.sched_getaffinity(0)),
        "caches": _caches(),
        "memory_mib": psutil.virtual_memory().total // MIB,
        "kernel": platform.release(),
        "python": platform.python_version(),
        "device": device.model,
        "gpu_driver": nvml.driver_version(),
    }


def _cpuinfo() -> dict[str, str]:
    try:
        first = _CPUINFO.read_text().split("\n\n")[0]
    except OSError:
        return {}
    pairs = (line.split(":", 1) for line in first.splitlines() if ":" in line)
    return {name.strip(): value.strip() for name, value in pairs}


def _caches() -> dict[str, str]:
    return {
        f"L{_fact(cache, 'level')} {_fact(cache, 'type')}": _fact(cache, "size")
        for cache in sorted(_CACHES.glob("index*"))
    }


def _fact(cache: Path, name: str) -> str:
    try:
        return (cache / name).read_text().strip()
    except OSError:
        return "unknown"
