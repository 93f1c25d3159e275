"""A machine's cards as Prometheus text, under the names that dcgm-exporter uses."""

import socket
from collections.abc import Iterable, Sequence

from data import dcgm
from scheduler_client.local.devices import Device
from scheduler_client.local.live_signals import CardReading, LiveSignals, Tenancy

PERCENT = 100.0
METRICS = (
    ("gpu_util", dcgm.GPU_UTIL, PERCENT, "GPU utilization (in %)."),
    ("sm_active", dcgm.SM_ACTIVE, 1.0, "Share of cycles with a warp on an SM (ratio)."),
    ("sm_occupancy", dcgm.SM_OCCUPANCY, 1.0, "Resident warps of the most possible (ratio)."),
    ("fp32_active", dcgm.FP32_ACTIVE, 1.0, "Share of cycles with the FP32 pipe active (ratio)."),
    ("dram_active", dcgm.DRAM_ACTIVE, 1.0, "Share of cycles with device memory active (ratio)."),
    ("pcie_tx_bytes_per_s", dcgm.PCIE_TX_BYTES, 1.0, "PCIe from the card (in bytes/s)."),
    ("pcie_rx_bytes_per_s", dcgm.PCIE_RX_BYTES, 1.0, "PCIe to the card (in bytes/s)."),
    ("gpu_mem_mib", dcgm.FB_USED, 1.0, "Framebuffer memory used (in MiB)."),
)
"""Signal, metric, factor to the metric's unit, help."""


class CardPage:
    """The cards' part of ``/metrics``: empty until `show` says whose cards those are."""

    def __init__(self) -> None:
        self._live: LiveSignals | None = None
        self._node = socket.gethostname()

    def show(self, live: LiveSignals) -> None:
        """Show these cards from now on."""
        self._live = live

    def text(self) -> str:
        """Return the page as it is now."""
        live = self._live
        if live is None:
            return ""
        return card_metrics_text(live.readings(), live.tenancies(), self._node)


def card_metrics_text(
    readings: Sequence[CardReading], tenancies: Sequence[Tenancy], node: str
) -> str:
    """Return cards and their tenants as Prometheus text.

    Parameters
    ----------
    readings : sequence of CardReading
        A signal that was not measured has no sample: never zero in its place.
    tenancies : sequence of Tenancy
        Each becomes one sample of ``colocast_scheduler_allocation_info``.
    node : str
        Name of this machine.
    """
    lines: list[str] = []
    for signal, metric, factor, words in METRICS:
        known = [reading for reading in readings if signal in reading.signals]
        samples = [(_card_labels(r.device, node), r.signals[signal] * factor) for r in known]
        lines += _family(metric, words, samples)
    free = [
        (_card_labels(r.device, node), max(0.0, r.device.mem_mib - r.signals["gpu_mem_mib"]))
        for r in readings
        if "gpu_mem_mib" in r.signals
    ]
    lines += _family(dcgm.FB_FREE, "Framebuffer memory free (in MiB).", free)
    held = [(_tenancy_labels(tenancy, node), 1.0) for tenancy in tenancies]
    lines += _family(dcgm.ALLOCATION_INFO, "1 for each card of each running job.", held)
    return "".join(line + "\n" for line in lines)


def exported_uuid(device: Device, node: str) -> str:
    """Return what identifies a card among those of all machines.

    Examples
    --------
    >>> exported_uuid(Device("gpu0", "gpu", 0, "NVIDIA H200", 143771, "GPU-6fc2"), "node7")
    'GPU-6fc2'
    >>> exported_uuid(Device("cpu1", "cpu", 1, "cpu", 4096, "cpu1"), "node7")
    'CPU-node7-cpu1'
    """
    return device.uuid if device.kind == "gpu" else f"CPU-{node}-{device.uuid}"


def labels_text(labels: dict[str, str]) -> str:
    r"""Return labels in Prometheus's text form.

    Examples
    --------
    >>> labels_text({"queue": 'vi"sion\\x'})
    '{queue="vi\\"sion\\\\x"}'
    """
    pairs = (f'{name}="{_escaped(value)}"' for name, value in labels.items())
    return "{" + ",".join(pairs) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _family(metric: str, words: str, samples: Iterable[tuple[dict[str, str], float]]) -> list[str]:
    found = [f"{metric}{labels_text(labels)} {value:.10g}" for labels, value in samples]
    return [f"# HELP {metric} {words}", f"# TYPE {metric} gauge", *found] if found else []


def _card_labels(device: Device, node: str) -> dict[str, str]:
    return {
        "gpu": str(device.index),
        dcgm.UUID_LABEL: exported_uuid(device, node),
        "device": device.card_id,
        "modelName": device.model,
        "hostname": node,
    }


def _tenancy_labels(tenancy: Tenancy, node: str) -> dict[str, str]:
    return {
        dcgm.UUID_LABEL: exported_uuid(tenancy.device, node),
        "card": tenancy.device.card_id,
        "gpu_model": tenancy.device.model,
        "node": node,
        "job_id": tenancy.job_id,
        "attempt": str(tenancy.attempt),
        "job_key": tenancy.job_key,
    }
