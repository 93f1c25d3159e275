"""What is on the cards of this machine now: measured by hand, and by the thread."""

import sys
import time

import pytest

from data.errors import SettingError
from scheduler_client.clusters import Launch
from scheduler_client.local import live_signals
from scheduler_client.local.devices import Device
from scheduler_client.local.live_signals import LiveSignals
from scheduler_client.local.processes import RunningProcess
from tests.scheduler_client.fake_nvml import FakeNvml

SLOTS = tuple(Device(f"cpu{n}", "cpu", 0, "cpu", 1000, f"cpu{n}") for n in (0, 1))
GPU = Device("gpu0", "gpu", 0, "NVIDIA H200", 143771, "GPU-good")


@pytest.fixture
def run():
    """Start a job that allocates and sleeps; all are ended afterwards."""
    started = []

    def start(job_id, *card_ids, source="x = bytearray(40 * 2**20)\nimport time; time.sleep(60)"):
        process = RunningProcess.start([sys.executable, "-I", "-c", source], SLOTS[0])
        started.append(process)
        launch = Launch(job_id, 2, f"key-{job_id}", ("x",), card_ids, (1,) * len(card_ids))
        return launch, process

    yield start
    for process in started:
        process.terminate(0.0)


def measured(live, holds=lambda _: True, within_s=30.0):
    """Signals by card as soon as `holds` of them: a process takes a while to do its work."""
    deadline = time.monotonic() + within_s
    while True:
        time.sleep(0.1)
        live.measure()
        found = {reading.device.card_id: reading.signals for reading in live.readings()}
        if holds(found):
            return found
        assert time.monotonic() < deadline, f"not in time: {found}"


def test_a_slot_shows_its_job_and_an_empty_one_is_idle(run):
    live = LiveSignals(SLOTS)
    live.entered(*run("7", "cpu0"))
    found = measured(live, lambda found: found["cpu0"]["gpu_mem_mib"] > 40)
    assert found["cpu1"] == dict.fromkeys(found["cpu1"], 0.0)
    assert [(t.device.card_id, t.job_id, t.attempt, t.job_key) for t in live.tenancies()] == [
        ("cpu0", "7", 2, "key-7")
    ]


def test_a_shared_slot_shows_the_sum_of_its_jobs_and_no_more_than_full(run):
    spin = "x = bytearray(40 * 2**20)\nwhile True: pass"
    live = LiveSignals(SLOTS)
    for number in range(3):
        live.entered(*run(str(number), "cpu0", source=spin))
    shared = measured(live, lambda found: found["cpu0"]["gpu_mem_mib"] > 120)["cpu0"]
    assert 0 < shared["sm_active"] <= shared["gpu_util"] <= 1.0


def test_shares_of_jobs_on_one_slot_are_added_and_cut_to_full():
    total = {"gpu_util": 0.7, "gpu_mem_mib": 10.0}
    live_signals._add(total, {"gpu_util": 0.6, "gpu_mem_mib": 20.0}, 2)
    assert total == {"gpu_util": 1.0, "gpu_mem_mib": 20.0}


def test_a_gang_is_spread_over_its_slots_and_gone_when_it_left(run):
    live = LiveSignals(SLOTS)
    live.entered(*run("1", "cpu0", "cpu1"))
    found = measured(live, lambda found: found["cpu0"]["gpu_mem_mib"] > 20)
    assert found["cpu0"]["gpu_mem_mib"] == found["cpu1"]["gpu_mem_mib"] < 40
    live.left("1")
    live.left("1")
    assert measured(live)["cpu0"]["gpu_mem_mib"] == 0
    assert live.tenancies() == ()


def test_what_a_job_does_not_give_is_unknown_for_its_slot(run, monkeypatch):
    monkeypatch.setattr("psutil.Process.io_counters", lambda _: (_ for _ in ()).throw(denied()))
    live = LiveSignals(SLOTS)
    live.entered(*run("1", "cpu0"))
    found = measured(live)
    assert "pcie_tx_bytes_per_s" not in found["cpu0"]
    assert "pcie_tx_bytes_per_s" in found["cpu1"]


def denied():
    import psutil

    return psutil.AccessDenied()


def test_gpus_are_measured_whoever_is_on_them_until_the_end(monkeypatch):
    fake = FakeNvml()
    fake.gpus["GPU-good"].has_gpm = True
    monkeypatch.setitem(sys.modules, "pynvml", fake)
    with LiveSignals([GPU], 0.05) as live:
        while not live.readings():
            time.sleep(0.01)
        (reading,) = live.readings()
    assert reading.signals["dram_active"] == pytest.approx(0.55)
    assert fake.gpus["GPU-good"].freed == 2


def test_a_reading_that_nobody_renews_is_not_shown():
    live = LiveSignals(SLOTS, 1000.0)
    assert live.readings() == ()
    live.measure()
    assert len(live.readings()) == 2
    live._measured_s -= 3001.0
    assert live.readings() == ()


def test_a_period_that_is_none_is_refused():
    with pytest.raises(SettingError, match="period_s must be above 0, got -1"):
        LiveSignals(SLOTS, -1)
