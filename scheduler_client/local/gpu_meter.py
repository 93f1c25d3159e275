"""What NVML measures on a GPU over an interval; GPM metrics where the GPU has them (Hopper on)."""

import time
from typing import Any

from scheduler_client.local import nvml
from scheduler_client.local.devices import Device
from scheduler_client.local.nvml import MIB, ratio, reading, within

BYTES_PER_NVML_KB = 1000
GPM_RATIOS = {
    "sm_active": "NVML_GPM_METRIC_SM_UTIL",
    "sm_occupancy": "NVML_GPM_METRIC_SM_OCCUPANCY",
    "fp32_active": "NVML_GPM_METRIC_FP32_UTIL",
    "dram_active": "NVML_GPM_METRIC_DRAM_BW_UTIL",
}
GPM_PCIE = ("NVML_GPM_METRIC_PCIE_TX_PER_SEC", "NVML_GPM_METRIC_PCIE_RX_PER_SEC")  # MiB/s
GPM_METRICS = (*GPM_RATIOS.values(), *GPM_PCIE)


class GpuMeter:
    """Measures the signals of one GPU over intervals; the whole card, so exclusive ones only.

    Without GPM, SM and DRAM activity stay missing: NVML's ``utilization.memory`` is a share of
    time, not of bandwidth, and must not stand in for ``dram_active``.
    """

    def __init__(self, device: Device) -> None:
        self._nvml = nvml.library()
        self._handle = self._found(device.uuid)
        self._gpm = _Gpm(self._nvml, self._handle) if self._supports_gpm() else None
        self._began_s = time.monotonic()

    def restart(self) -> None:
        """Begin an interval now."""
        self._began_s = time.monotonic()
        if self._gpm is not None:
            self._gpm.restart()

    def measure(self) -> tuple[float, dict[str, float]]:
        """Return the seconds since the interval began and its signals, and begin the next.

        Signals that NVML cannot give are left out; ``pcie_tx_bytes_per_s`` (from the card) and
        ``pcie_rx_bytes_per_s`` are the parts of ``pcie_bytes_per_s``.
        """
        now_s = time.monotonic()
        seconds, self._began_s = now_s - self._began_s, now_s
        readings = {"gpu_util": self._utilization(), "gpu_mem_mib": self._memory_mib()}
        readings |= self._pcie()
        readings |= self._gpm.measure() if self._gpm is not None else {}
        return seconds, {name: value for name, value in readings.items() if value is not None}

    def peak_mem_mib(self) -> float | None:
        """Return None: NVML keeps no peak, so the largest sample stands for it."""
        return None

    def close(self) -> None:
        """Free the GPM samples."""
        if self._gpm is not None:
            self._gpm.close()
            self._gpm = None

    def _found(self, uuid: str) -> Any:
        if self._nvml is None:
            return None
        return reading(self._nvml, self._nvml.nvmlDeviceGetHandleByUUID, uuid)

    def _read(self, name: str, *arguments: object) -> Any:
        if self._nvml is None or self._handle is None:
            return None
        return reading(self._nvml, getattr(self._nvml, name), self._handle, *arguments)

    def _supports_gpm(self) -> bool:
        support = self._read("nvmlGpmQueryDeviceSupport")
        return support is not None and bool(support.isSupportedDevice)

    def _utilization(self) -> float | None:
        rates = self._read("nvmlDeviceGetUtilizationRates")
        return None if rates is None else ratio(rates.gpu)

    def _memory_mib(self) -> float | None:
        memory = self._read("nvmlDeviceGetMemoryInfo")
        used = None if memory is None else within(memory.used, memory.total)
        return None if used is None else used / MIB

    def _pcie(self) -> dict[str, float]:
        if self._nvml is None:
            return {}
        counters = (self._nvml.NVML_PCIE_UTIL_TX_BYTES, self._nvml.NVML_PCIE_UTIL_RX_BYTES)
        rates = [self._read("nvmlDeviceGetPcieThroughput", counter) for counter in counters]
        return _pcie([None if rate is None else rate * BYTES_PER_NVML_KB for rate in rates])


class _Gpm:
    """The pair of GPM samples between which the metrics of one GPU are computed."""

    def __init__(self, library: Any, handle: Any) -> None:
        self._nvml = library
        self._handle = handle
        self._samples = [self._nvml.nvmlGpmSampleAlloc() for _ in range(2)]
        self._has_begun = False

    def restart(self) -> None:
        self._has_begun = self._take(self._samples[0])

    def measure(self) -> dict[str, float | None]:
        has_begun, self._has_begun = self._has_begun, self._take(self._samples[1])
        metrics = self._metrics() if has_begun and self._has_begun else {}
        self._samples.reverse()
        signals = {name: ratio(metrics.get(metric)) for name, metric in GPM_RATIOS.items()}
        rates = [metrics.get(metric) for metric in GPM_PCIE]
        return signals | _pcie([None if rate is None else rate * MIB for rate in rates])

    def close(self) -> None:
        for sample in self._samples:
            reading(self._nvml, self._nvml.nvmlGpmSampleFree, sample)

    def _take(self, sample: Any) -> bool:
        taken = reading(self._nvml, self._nvml.nvmlGpmSampleGet, self._handle, sample)
        return taken is not None

    def _metrics(self) -> dict[str, float]:
        request = self._nvml.c_nvmlGpmMetricsGet_t()
        request.version = self._nvml.NVML_GPM_METRICS_GET_VERSION
        request.sample1, request.sample2 = self._samples
        request.numMetrics = len(GPM_METRICS)
        for place, name in enumerate(GPM_METRICS):
            request.metrics[place].metricId = getattr(self._nvml, name)
        if reading(self._nvml, self._nvml.nvmlGpmMetricsGet, request) is None:
            return {}
        answers = zip(GPM_METRICS, request.metrics, strict=False)  # the array is longer
        success = self._nvml.NVML_SUCCESS
        return {name: one.value for name, one in answers if one.nvmlReturn == success}


def _pcie(rates: list[float | None]) -> dict[str, float]:
    """Both directions and their sum; nothing if one is missing or no plausible rate."""
    valid = [within(rate, nvml.MOST_PCIE_BYTES_PER_S) for rate in rates]
    known = [rate for rate in valid if rate is not None]
    if len(known) < len(rates):
        return {}
    sent, received = known
    return {
        "pcie_bytes_per_s": sent + received,
        "pcie_tx_bytes_per_s": sent,
        "pcie_rx_bytes_per_s": received,
    }
