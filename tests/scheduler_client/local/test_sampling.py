"""Signals of a job on its card: what is measured, what is missing, what is left out."""

import sys
import time

import psutil
import pytest

from data.domain import PROFILE_COLUMNS
from data.errors import SettingError
from scheduler_client.local.devices import Device, discover
from scheduler_client.local.gpu_meter import GpuMeter
from scheduler_client.local.processes import RunningProcess
from scheduler_client.local.sampling import Sampler
from scheduler_client.local.slot_meter import SlotMeter
from tests.scheduler_client.fake_nvml import BLANK_INT64, FakeNvml

SLOT = discover(kind="cpu")[-1]
GPU = Device("gpu0", "gpu", 0, "NVIDIA H200", 143771, "GPU-good")
SPIN = "import time\nend = time.process_time() + {0}\nwhile time.process_time() < end: pass\n"


@pytest.fixture
def fake_nvml(monkeypatch):
    fake = FakeNvml()
    monkeypatch.setitem(sys.modules, "pynvml", fake)
    return fake


def run_python(source):
    return RunningProcess.start([sys.executable, "-I", "-c", source], SLOT)


def sampled(source, period_s=0.05):
    process = run_python(source)
    with Sampler(process, SLOT, period_s) as sampler:
        process.wait(30)
    return process, sampler.summary()


class ScriptedMeter:
    """Gives one measurement after the other: seconds and the value of one signal."""

    def __init__(self, samples):
        self.samples, self.restarts, self.is_closed = list(samples), 0, False

    def restart(self):
        self.restarts += 1

    def measure(self):
        return self.samples.pop(0) if self.samples else (0.0, {})

    def peak_mem_mib(self):
        return None

    def close(self):
        self.is_closed = True


def scripted(samples):
    process = run_python("")
    process.wait(30)
    sampler = Sampler(process, SLOT, period_s=1000)
    sampler._meter = ScriptedMeter(samples)
    return sampler


def test_a_slot_is_measured_over_the_whole_run_to_its_last_moment():
    process, summary = sampled(SPIN.format(0.3) + "time.sleep(0.3)")
    used = process.usage.user_s + process.usage.system_s
    assert summary["gpu_util_mean"] == pytest.approx(used / process.runtime_s, rel=0.1)
    assert summary["sm_active_mean"] <= summary["gpu_util_mean"]
    assert summary["gpu_util_std"] > 0.01


def test_children_of_the_job_count_as_the_job():
    run = f"subprocess.run([sys.executable, '-I', '-c', {SPIN.format(0.4)!r}])"
    source = f"import subprocess, sys\n{run}"
    process, summary = sampled(source)
    used = process.usage.user_s + process.usage.system_s
    assert used > 0.4
    assert summary["gpu_util_mean"] == pytest.approx(used / process.runtime_s, rel=0.15)


def test_memory_and_bytes_of_a_slot_are_the_jobs_own():
    source = (
        "x = bytearray(60 * 2**20)\nopen('/dev/null', 'wb').write(x)\nimport time; time.sleep(0.3)"
    )
    process, summary = sampled(source)
    assert summary["gpu_mem_peak_mib"] >= 60
    assert 30 < summary["gpu_mem_mib_mean"] <= summary["gpu_mem_peak_mib"]
    read_and_written = summary["pcie_bytes_per_s_mean"] * process.runtime_s
    # Rates are of the time from the first reading on, which a busy machine delays.
    assert read_and_written == pytest.approx(process.usage.io_bytes, rel=0.5)


def test_what_a_slot_has_no_counterpart_of_is_missing_not_zero():
    _, summary = sampled("import time; time.sleep(0.2)")
    assert set(summary) <= set(PROFILE_COLUMNS)
    assert not {name for name in summary if name.startswith(("sm_occ", "fp32", "dram"))}


def test_bytes_written_and_read_are_told_apart_while_the_job_lives():
    write = "open('/dev/null', 'wb').write(bytes(60 * 2**20))"
    process = run_python(f"import time; time.sleep(0.3)\n{write}\ntime.sleep(60)")
    meter, deadline = SlotMeter(process), time.monotonic() + 30
    meter.restart()
    signals = {"pcie_tx_bytes_per_s": 0.0, "pcie_rx_bytes_per_s": 0.0}
    while signals["pcie_tx_bytes_per_s"] <= 10 * signals["pcie_rx_bytes_per_s"]:
        assert time.monotonic() < deadline, "it never wrote"
        time.sleep(0.05)
        signals = {**signals, **meter.measure()[1]}
    process.terminate(0.0)
    both = signals["pcie_tx_bytes_per_s"] + signals["pcie_rx_bytes_per_s"]
    assert both == pytest.approx(signals["pcie_bytes_per_s"])


def test_bytes_that_may_not_be_read_are_missing(monkeypatch):
    def refuse(_):
        raise psutil.AccessDenied

    monkeypatch.setattr(psutil.Process, "io_counters", refuse)
    process = run_python("import time; time.sleep(60)")
    meter = SlotMeter(process)
    meter.restart()
    time.sleep(0.05)
    seconds, signals = meter.measure()
    process.terminate(0.0)
    assert seconds > 0
    assert "pcie_bytes_per_s" not in signals
    assert "gpu_mem_mib" in signals


def test_nothing_is_measured_after_the_end():
    process = run_python("")
    process.wait(30)
    meter = SlotMeter(process)
    meter.restart()
    assert meter.measure() == (0.0, {})


def test_shared_intervals_are_left_out():
    sampler = scripted([(1.0, {"gpu_util": 0.2}), (1.0, {"gpu_util": 0.9})])
    sampler.start()
    sampler.pause()
    sampler.pause()
    sampler.stop()
    assert sampler.summary() == {"gpu_util_mean": 0.2, "gpu_util_std": 0.0}


def test_sampling_goes_on_after_the_neighbour_has_left():
    sampler = scripted([(1.0, {"gpu_util": 0.2}), (1.0, {"gpu_util": 0.4})])
    sampler.start()
    sampler.pause()
    sampler.resume()
    sampler.stop()
    assert sampler._meter.restarts == 2
    assert sampler._meter.is_closed
    assert sampler.summary()["gpu_util_mean"] == pytest.approx(0.3)


def test_moments_are_weighted_by_time():
    sampler = scripted([(3.0, {"gpu_util": 0.0}), (1.0, {"gpu_util": 1.0})])
    sampler.start()
    sampler.pause()
    sampler.resume()
    sampler.stop()
    assert sampler.summary()["gpu_util_mean"] == pytest.approx(0.25)


def test_a_period_that_is_none_is_refused():
    with pytest.raises(SettingError, match="period_s must be above 0, got 0"):
        Sampler(run_python(""), SLOT, 0)


def test_a_gpu_without_gpm_gives_what_nvml_has(fake_nvml):
    meter = GpuMeter(GPU)
    meter.restart()
    _, signals = meter.measure()
    pcie = {"pcie_bytes_per_s": 3e6, "pcie_tx_bytes_per_s": 2e6, "pcie_rx_bytes_per_s": 1e6}
    assert signals == {"gpu_util": 0.7, "gpu_mem_mib": 1024, **pcie}


def test_a_gpu_with_gpm_gives_all_signals(fake_nvml):
    fake_nvml.gpus["GPU-good"].has_gpm = True
    meter = GpuMeter(GPU)
    meter.restart()
    _, signals = meter.measure()
    assert signals["sm_active"] == pytest.approx(0.8)
    assert signals["sm_occupancy"] == pytest.approx(0.4)
    assert signals["fp32_active"] == pytest.approx(0.3)
    assert signals["dram_active"] == pytest.approx(0.55)
    assert signals["pcie_bytes_per_s"] == 150 * 2**20
    assert signals["pcie_tx_bytes_per_s"] == 100 * 2**20


def test_a_gpm_metric_that_fails_is_missing(fake_nvml):
    gpu = fake_nvml.gpus["GPU-good"]
    gpu.has_gpm = True
    gpu.gpm_status[10] = 3
    meter = GpuMeter(GPU)
    meter.restart()
    _, signals = meter.measure()
    assert "dram_active" not in signals
    assert "sm_active" in signals


def test_gpm_needs_the_beginning_of_the_interval(fake_nvml):
    fake_nvml.gpus["GPU-good"].has_gpm = True
    meter = GpuMeter(GPU)
    _, signals = meter.measure()
    assert "sm_active" not in signals


def test_gpm_samples_are_freed_once(fake_nvml):
    fake_nvml.gpus["GPU-good"].has_gpm = True
    meter = GpuMeter(GPU)
    meter.close()
    meter.close()
    assert fake_nvml.gpus["GPU-good"].freed == 2
    assert meter.peak_mem_mib() is None


@pytest.mark.parametrize("value", [None, 255, BLANK_INT64])
def test_what_nvml_cannot_give_is_missing_not_zero(fake_nvml, value):
    gpu = fake_nvml.gpus["GPU-good"]
    gpu.utilization = value
    gpu.used = value if value is None else BLANK_INT64
    gpu.pcie_kb_per_s[1] = value if value is None else BLANK_INT64
    meter = GpuMeter(GPU)
    meter.restart()
    assert meter.measure()[1] == {}


def test_a_gpu_that_is_lost_gives_nothing(fake_nvml):
    lost = Device("gpu1", "gpu", 1, "NVIDIA H200", 143771, "GPU-lost")
    meter = GpuMeter(lost)
    meter.restart()
    assert meter.measure()[1] == {}


def test_a_machine_without_a_driver_gives_nothing(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    meter = GpuMeter(GPU)
    meter.restart()
    assert meter.measure()[1] == {}


def test_a_job_on_a_gpu_is_sampled_through_nvml(fake_nvml):
    process = run_python("import time; time.sleep(0.2)")
    with Sampler(process, GPU, 0.05) as sampler:
        process.wait(30)
    assert sampler.summary()["gpu_util_mean"] == pytest.approx(0.7)
    assert sampler.summary()["gpu_mem_peak_mib"] == 1024
