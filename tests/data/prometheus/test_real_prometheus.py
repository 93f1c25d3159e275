"""Against a real Prometheus: samples of the past written into it, and pages that it scrapes."""

import time
from datetime import UTC, datetime

import numpy as np
import pytest

from data.dcgm import ALLOCATION_INFO, DRAM_ACTIVE, FB_USED, GPU_UTIL, PCIE_RX_BYTES, PCIE_TX_BYTES
from data.domain import FinishedJob, Outcome, Segment
from data.errors import TelemetryError
from data.prometheus.config import Reading, TelemetryConfig
from data.prometheus.job_signals import NO_SAMPLES, Sharing, job_signals
from data.prometheus.source import MOST_POINTS, PrometheusSource, selector
from tests.ports import free_port
from tests.prometheus import exporter, prometheus

LONG = 12_500  # seconds, one sample each: more than the 11,000 points of one range query
BEGAN = 1_700_000_000.0
CONFIG = TelemetryConfig(delay_s=0.0, longest_gap_s=30.0)


class Past:
    """OpenMetrics text, family by family."""

    def __init__(self):
        self.families = {}

    def add(self, name, times, values, **labels):
        text = ",".join(f'{key}="{value}"' for key, value in labels.items())
        lines = self.families.setdefault(name, [])
        pairs = zip(times, np.broadcast_to(values, len(times)), strict=True)
        lines += [f"{name}{{{text}}} {value} {BEGAN + at}" for at, value in pairs]

    def text(self):
        parts = [f"# TYPE {name} gauge\n" + "\n".join(ls) for name, ls in self.families.items()]
        return "\n".join(parts) + "\n# EOF\n"


def past() -> str:
    past, t = Past(), np.arange(0, 601, 15)
    held = {"attempt": "1", "node": "n"}
    # A shared card's copies for two pods, a MIG instance, and another host's spelling.
    for pod, host in (("a", "Hostname"), ("b", "hostname")):
        past.add(GPU_UTIL, t, np.where(t <= 300, 20, 60), UUID="GPU-1", pod=pod, **{host: "n"})
    past.add(GPU_UTIL, t, 99, UUID="GPU-1", GPU_I_ID="3")
    past.add(FB_USED, t, 1000 + t, UUID="GPU-1")
    past.add(ALLOCATION_INFO, t, 1, UUID="GPU-1", card="g0", job_id="mixed", **held)
    # Blanks, texts, a gap of five minutes, and a percent where a ratio was to be.
    known = t[(t <= 150) | (t >= 450)]
    past.add(GPU_UTIL, known, np.where(known == 90, 2147483632, 50), UUID="GPU-2")
    past.add(FB_USED, t, np.where(t % 60 == 0, 9223372036854775794, 2000), UUID="GPU-2")
    past.add(DRAM_ACTIVE, t, [("NaN", "0.5", "+Inf")[n % 3] for n in range(len(t))], UUID="GPU-2")
    past.add("DCGM_FI_PROF_SM_ACTIVE", t, 35, UUID="GPU-2")
    past.add(ALLOCATION_INFO, t, 1, UUID="GPU-2", card="g0", job_id="gappy", **held)
    # Counters that begin anew.
    sent = np.where(t < 300, 1e6 * t, 1e6 * (t - 300))
    past.add("my_tx_total", t, sent, UUID="GPU-3")
    past.add("my_rx_total", t, 2 * sent, UUID="GPU-3")
    past.add(ALLOCATION_INFO, t, 1, UUID="GPU-3", card="g0", job_id='odd "job"'.replace('"', '\\"'),
             **held)  # fmt: skip
    seconds = np.arange(0, LONG)
    past.add(GPU_UTIL, seconds, seconds % 100, UUID="GPU-4")
    past.add(ALLOCATION_INFO, seconds[::100], 1, UUID="GPU-4", card="g0", job_id="long", **held)
    return past.text()


@pytest.fixture(scope="module")
def source():
    with prometheus({}, openmetrics=past()) as url, PrometheusSource(url, timeout_s=30) as source:
        yield source


def job(job_id, *stretches):
    at, segments = BEGAN, []
    for seconds, *neighbours in stretches:
        segments.append(Segment(at, at + seconds, "g0", "A100", tuple(neighbours)))
        at += seconds
    facts = (job_id, 1, "ada", "q", "ncf", 1, BEGAN, BEGAN, at, Outcome.OK, tuple(segments))
    return FinishedJob(*facts)


def test_copies_of_a_shared_card_count_once_and_only_while_alone(source):
    own, light = job_signals(job("mixed", (300,), (300, "bert")), source, CONFIG)
    assert own.signals["gpu_util_mean"] == pytest.approx(0.2)
    assert own.signals["gpu_util_std"] == pytest.approx(0.0)
    assert own.signals["gpu_mem_peak_mib"] == 1300
    assert own.samples == 20
    assert (light.sharing, light.signals["gpu_util_mean"]) == (Sharing.LIGHT, pytest.approx(0.6))


def test_gaps_blanks_and_texts_are_missing_not_wrong(source):
    (own,) = job_signals(job("gappy", (600,)), source, CONFIG)
    assert own.signals["gpu_util_mean"] == pytest.approx(0.5)
    assert own.signals["gpu_mem_mib_mean"] == own.signals["gpu_mem_peak_mib"] == 2000
    assert own.signals["dram_active_mean"] == pytest.approx(0.5)
    assert "sm_active_mean" not in own.signals
    assert own.dropped == {"blank": 12, "not a number": 27, "out of range": 41}


def test_counters_are_rates_and_resets_are_left_out(source):
    reading = Reading("B/s", ("my_tx_total", "my_rx_total"), kind="counter")
    config = TelemetryConfig({"pcie_bytes_per_s": (reading,)}, longest_gap_s=30.0)
    (own,) = job_signals(job('odd "job"', (600,)), source, config)
    assert own.signals["pcie_bytes_per_s_mean"] == pytest.approx(3e6)
    assert own.signals["pcie_bytes_per_s_std"] == pytest.approx(0.0, abs=1.0)
    assert own.dropped == {"reset": 2}


def test_a_job_longer_than_one_range_query_is_read_whole(source):
    (own,) = job_signals(job("long", (LONG - 1,)), source, CONFIG)
    assert own.samples == LONG - 1  # the first sample shows what was before
    assert own.signals["gpu_util_mean"] == pytest.approx(0.495, abs=0.001)


def test_raw_samples_are_all_there_each_once(source):
    (found,) = source.samples(selector([GPU_UTIL], {"UUID": "GPU-4"}), BEGAN, BEGAN + LONG - 1)
    np.testing.assert_array_equal(found.times, BEGAN + np.arange(LONG))
    np.testing.assert_array_equal(found.values, np.arange(LONG) % 100)


def test_steps_beyond_prometheus_limit_are_asked_in_parts(source):
    query = f'avg by (UUID) ({GPU_UTIL}{{UUID="GPU-4"}})'
    ends = [datetime.fromtimestamp(BEGAN + s, UTC) for s in (0, LONG - 1)]
    with pytest.raises(Exception, match="11,000 points"):
        source._client.custom_query_range(query, *ends, "1")
    (found,) = source.steps(query, BEGAN, BEGAN + LONG - 1, 1.0)
    assert len(found.times) == LONG > MOST_POINTS
    np.testing.assert_array_equal(found.values, np.arange(LONG) % 100)


def test_an_expression_gives_a_signal(source):
    query = f'max by (UUID) (avg_over_time({GPU_UTIL}{{GPU_I_ID=""}}[1m]))'
    config = TelemetryConfig({"sm_active": (Reading("percent", query=query),)}, longest_gap_s=30.0)
    (own, _) = job_signals(job("mixed", (300,), (300, "bert")), source, config)
    assert own.signals["sm_active_mean"] == pytest.approx(0.2)


def test_nothing_at_all_is_no_error(source):
    assert source.samples(selector(["absent"], {}), BEGAN, BEGAN + 10) == []
    assert source.steps("absent", BEGAN, BEGAN + 10, 1.0) == []


def test_a_refused_query_says_why(source):
    with pytest.raises(TelemetryError, match=r"refused a query.*parse error"):
        source.samples("{", BEGAN, BEGAN + 1)


def test_a_prometheus_that_is_down_or_something_else_is_told_apart():
    with (
        PrometheusSource(f"http://127.0.0.1:{free_port()}", timeout_s=1) as absent,
        pytest.raises(TelemetryError, match="does not answer"),
    ):
        absent.samples("up", 0, 1)
    with (
        exporter(lambda: "hello") as port,
        PrometheusSource(f"http://127.0.0.1:{port}", timeout_s=1) as other,
        pytest.raises(TelemetryError, match="answers, but not as a Prometheus"),
    ):
        other.samples("up", 0, 1)


def readable(page: str) -> str:
    """The page without the lines that Prometheus would refuse."""

    def is_number(text):
        try:
            float(text)
        except ValueError:
            return False
        return True

    lines = page.splitlines()
    kept = [x for x in lines if x.startswith("#") or is_number(x.rpartition("} ")[2])]
    return "\n".join(kept) + "\n"


def held_page(uuids) -> str:
    """What the scheduler would say: one job on each of these cards."""
    lines = [
        f'{ALLOCATION_INFO}{{UUID="{uuid}",card="g{n}",job_id="{n}",attempt="1"}} 1'
        for n, uuid in enumerate(uuids)
    ]
    return "\n".join(lines) + "\n"


def running_now(n, seconds):
    now = time.time()
    spans = (Segment(now - seconds, now, f"g{n}", "A800"),)
    return FinishedJob(str(n), 1, "a", "q", "k", 1, 0.0, now - seconds, now, Outcome.OK, spans)


def scraped(url, name):
    """Wait until a series has some samples."""
    with PrometheusSource(url) as source:
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            now = time.time()
            found = source.samples(name, now - 60, now)
            if found and all(len(one.times) >= 4 for one in found):
                return found
            time.sleep(0.1)
    raise AssertionError(f"{name} was not scraped")


def test_pages_of_dcgm_exporter_give_the_signals_of_each_card(public_data):
    page = (public_data / "dcgm" / "a800_8gpu_mig_idle.prom").read_text()
    older = (public_data / "dcgm" / "datadog_t4_a10g_fixture.prom").read_text()
    cards = [
        "GPU-1f027ee8-6e1e-2b8c-0108-3d370e5f0418",  # in MIG mode
        "GPU-9e5b8fec-61bf-5124-a0a9-079af1b65cc6",
        "GPU-20c56d28-0da5-6d26-a36a-e7af1ce2586e",  # a T4 of another host, without PROF fields
    ]
    with (
        exporter(lambda: readable(page)) as dcgm,
        exporter(lambda: older) as t4,
        exporter(lambda: page) as unreadable,
        exporter(lambda: held_page(cards)) as scheduler,
        prometheus({"dcgm": dcgm, "t4": t4, "bad": unreadable, "scheduler": scheduler}) as url,
        PrometheusSource(url) as source,
    ):
        for name in (FB_USED, ALLOCATION_INFO, "up"):
            up = scraped(url, name)
        assert {one.labels["job"]: one.values[-1] for one in up} == {
            "dcgm": 1, "t4": 1, "bad": 0, "scheduler": 1,
        }  # fmt: skip
        (instances,) = job_signals(running_now(0, 1.0), source, CONFIG)
        (whole,) = job_signals(running_now(1, 1.0), source, CONFIG)
        (lesser,) = job_signals(running_now(2, 1.0), source, CONFIG)
    assert instances.note == NO_SAMPLES
    line = next(x for x in page.splitlines() if x.startswith(FB_USED) and cards[1] in x)
    assert whole.signals["gpu_mem_mib_mean"] == float(line.rpartition(" ")[2])
    assert whole.signals["gpu_util_mean"] == 0.0
    assert {"dram_active_mean", "pcie_bytes_per_s_mean"} <= whole.signals.keys()
    assert "sm_active_mean" not in whole.signals
    means = {name for name in lesser.signals if name.endswith("_mean")}
    assert means == {"gpu_util_mean", "gpu_mem_mib_mean"}


def test_a_page_of_ours_gives_the_same_numbers_back():
    from scheduler_client.local.card_metrics import card_metrics_text
    from scheduler_client.local.devices import Device
    from scheduler_client.local.live_signals import CardReading, Tenancy

    device = Device("g0", "gpu", 0, "NVIDIA H200", 143771, "GPU-6fc2")
    pcie = {"pcie_tx_bytes_per_s": 1e9, "pcie_rx_bytes_per_s": 2e9}
    reading = CardReading(device, {"gpu_util": 0.35, "sm_active": 0.25, "gpu_mem_mib": 512, **pcie})
    page = card_metrics_text([reading], [Tenancy(device, "0", 1, "k")], "node7")
    with exporter(lambda: page) as port, prometheus({"scheduler": port}) as url:
        scraped(url, PCIE_RX_BYTES)
        scraped(url, PCIE_TX_BYTES)
        with PrometheusSource(url) as source:
            (own,) = job_signals(running_now(0, 1.0), source, CONFIG)
    means = {name: value for name, value in own.signals.items() if not name.endswith("_std")}
    assert means == {
        "gpu_util_mean": pytest.approx(0.35),
        "sm_active_mean": 0.25,
        "pcie_bytes_per_s_mean": 3e9,
        "gpu_mem_mib_mean": 512,
        "gpu_mem_peak_mib": 512,
    }


def test_a_bearer_token_is_sent():
    asked = []

    with exporter(lambda: "{}") as port, PrometheusSource(f"http://127.0.0.1:{port}", "s3") as one:
        asked.append(one._client.headers)
    assert asked == [{"Authorization": "Bearer s3"}]
