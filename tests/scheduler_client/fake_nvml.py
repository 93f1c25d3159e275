"""A stand-in for the module ``pynvml``: two GPUs, the second of which fails every query."""

from types import ModuleType, SimpleNamespace

MIB = 2**20
BLANK_INT64 = 9223372036854775794
METRIC_VALUES = {2: 80.0, 3: 40.0, 10: 55.0, 12: 30.0, 20: 100.0, 21: 50.0}


class NVMLError(Exception):
    pass


class Gpu:
    """The state of one GPU; tests change it."""

    def __init__(self, uuid):
        self.uuid = uuid
        self.utilization = 70
        self.used = 1024 * MIB
        self.pcie_kb_per_s = {0: 2000, 1: 1000}
        self.has_gpm = False
        self.gpm_status = dict.fromkeys(METRIC_VALUES, 0)
        self.gpm_samples = 0
        self.freed = 0
        self.processes = []


class FakeNvml(ModuleType):
    """As much of ``pynvml`` as colocast calls."""

    NVMLError = NVMLError
    NVML_SUCCESS = 0
    NVML_PCIE_UTIL_TX_BYTES = 0
    NVML_PCIE_UTIL_RX_BYTES = 1
    NVML_GPM_METRICS_GET_VERSION = 1
    NVML_GPM_METRIC_SM_UTIL = 2
    NVML_GPM_METRIC_SM_OCCUPANCY = 3
    NVML_GPM_METRIC_DRAM_BW_UTIL = 10
    NVML_GPM_METRIC_FP32_UTIL = 12
    NVML_GPM_METRIC_PCIE_TX_PER_SEC = 20
    NVML_GPM_METRIC_PCIE_RX_PER_SEC = 21

    def __init__(self):
        super().__init__("pynvml")
        self.gpus = {"GPU-good": Gpu("GPU-good"), "GPU-lost": None}

    def nvmlInit(self):
        pass

    def nvmlSystemGetDriverVersion(self):
        return "570.10"

    def nvmlDeviceGetCount(self):
        return len(self.gpus)

    def nvmlDeviceGetHandleByIndex(self, index):
        return self._known(list(self.gpus)[index])

    def nvmlDeviceGetHandleByUUID(self, uuid):
        return self._known(uuid)

    def nvmlDeviceGetUUID(self, gpu):
        return gpu.uuid

    def nvmlDeviceGetName(self, gpu):
        return b"NVIDIA H200"

    def nvmlDeviceGetMemoryInfo(self, gpu):
        return SimpleNamespace(total=143771 * MIB, used=self._value(gpu.used))

    def nvmlDeviceGetUtilizationRates(self, gpu):
        return SimpleNamespace(gpu=self._value(gpu.utilization), memory=99)

    def nvmlDeviceGetPcieThroughput(self, gpu, counter):
        return self._value(gpu.pcie_kb_per_s[counter])

    def nvmlDeviceGetComputeRunningProcesses(self, gpu):
        return gpu.processes

    def nvmlGpmQueryDeviceSupport(self, gpu):
        return SimpleNamespace(isSupportedDevice=int(gpu.has_gpm))

    def nvmlGpmSampleAlloc(self):
        return SimpleNamespace(taken=False)

    def nvmlGpmSampleFree(self, sample):
        self.gpus["GPU-good"].freed += 1

    def nvmlGpmSampleGet(self, gpu, sample):
        gpu.gpm_samples += 1
        sample.taken = True
        return sample

    def c_nvmlGpmMetricsGet_t(self):
        blank = [SimpleNamespace(metricId=0, nvmlReturn=0, value=0.0) for _ in range(10)]
        return SimpleNamespace(metrics=blank)

    def nvmlGpmMetricsGet(self, request):
        assert request.sample1.taken
        assert request.sample2.taken
        for metric in request.metrics[: request.numMetrics]:
            metric.value = METRIC_VALUES[metric.metricId]
            metric.nvmlReturn = self.gpus["GPU-good"].gpm_status[metric.metricId]
        return request

    def _known(self, uuid):
        if self.gpus.get(uuid) is None:
            raise NVMLError("GPU is lost")
        return self.gpus[uuid]

    def _value(self, value):
        if value is None:
            raise NVMLError("Not Supported")
        return value
