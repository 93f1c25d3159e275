"""Which cards a machine has, and how a process is bound to one."""

import os
import sys

import pytest

from data.errors import ClusterError
from scheduler_client.local import nvml
from scheduler_client.local.devices import Device, discover, environment
from tests.scheduler_client.fake_nvml import BLANK_INT64, FakeNvml


@pytest.fixture
def fake_nvml(monkeypatch):
    fake = FakeNvml()
    monkeypatch.setitem(sys.modules, "pynvml", fake)
    return fake


@pytest.fixture
def no_driver(monkeypatch):
    fake = FakeNvml()
    monkeypatch.setitem(sys.modules, "pynvml", fake)

    def fail():
        raise fake.NVMLError("Driver Not Loaded")

    monkeypatch.setattr(fake, "nvmlInit", fail, raising=False)


def test_a_machine_without_a_driver_has_one_slot_per_usable_core(no_driver):
    cores = sorted(os.sched_getaffinity(0))
    assert [device.cores for device in discover()] == [(core,) for core in cores]
    assert {device.model for device in discover()} == {"cpu"}


def test_slots_share_the_memory_equally(no_driver):
    one, all_of_them = discover(1), discover()
    assert len(one) == 1
    assert one[0].mem_mib == pytest.approx(sum(d.mem_mib for d in all_of_them), rel=0.01)


def test_a_container_limit_bounds_the_memory_of_slots(no_driver, monkeypatch, tmp_path):
    limit = tmp_path / "memory.max"
    limit.write_text(f"{512 * 2**20}\n")
    monkeypatch.setattr("scheduler_client.local.devices._CGROUP_LIMIT", limit)
    assert discover(1)[0].mem_mib == 512


def test_gpus_come_before_slots_and_a_lost_gpu_is_left_out(fake_nvml):
    wanted = Device("gpu0", "gpu", 0, "NVIDIA H200", 143771, "GPU-good")
    assert discover() == (wanted,)
    assert wanted.cores == ()


def test_slots_can_be_asked_for_on_a_machine_with_gpus(fake_nvml):
    assert {device.kind for device in discover(kind="cpu")} == {"cpu"}


def test_gpus_asked_for_where_there_are_none_are_an_error(no_driver):
    with pytest.raises(ClusterError, match="found no NVIDIA GPU"):
        discover(kind="gpu")


def test_no_slot_at_all_is_refused():
    with pytest.raises(ClusterError, match="at least 1, got 0"):
        discover(0)


def test_a_machine_without_the_binding_has_no_gpu(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert nvml.gpus() == ()
    assert nvml.driver_version() is None
    assert nvml.compute_processes("GPU-good") == 0


def test_a_gpu_is_bound_by_its_uuid(fake_nvml):
    assert environment(discover()[0]) == {"CUDA_VISIBLE_DEVICES": "GPU-good"}


def test_driver_and_processes_are_read(fake_nvml):
    fake_nvml.gpus["GPU-good"].processes = [1, 2]
    assert nvml.driver_version() == "570.10"
    assert nvml.compute_processes("GPU-good") == 2
    assert nvml.compute_processes("GPU-lost") == 0


def test_blank_values_are_missing():
    assert nvml.within(BLANK_INT64, nvml.MOST_PCIE_BYTES_PER_S) is None
    assert nvml.ratio(None) is None
