import os
import shutil
import signal
import subprocess
import sys
from http import HTTPStatus

import pytest

from data.domain import REGISTERED_MODELS, ServedModel
from serving.metric_files import FILE_BYTES, forget_dead_workers, prepare_files
from serving.metrics import LATER, MOST_VERSIONS, Metrics


def page(metrics):
    return metrics.page().decode()


def test_requests_are_counted_by_route_and_status():
    metrics = Metrics()
    metrics.request("/v1/slowdown", 200, 0.003, {})
    metrics.request("/v1/slowdown", HTTPStatus.BAD_REQUEST, 0.001, {})
    assert seconds(metrics, status="200", model_version="none", source="none") == 1.0
    assert seconds(metrics, status="400", model_version="none", source="none") == 1.0


def test_time_is_counted_under_the_version_and_source_of_most_rows():
    metrics = Metrics()
    counts = {("m/3", "model"): 9, ("none", "cold_start"): 1}
    metrics.request("/v1/slowdown", 200, 0.003, counts)
    assert seconds(metrics, status="200", model_version="m/3", source="model") == 1.0


def seconds(metrics, **labels):
    """Return how many requests were counted under these labels."""
    name = "colocast_request_seconds_count"
    return metrics._registry.get_sample_value(name, {"route": "/v1/slowdown", **labels})


def test_estimates_are_counted_by_version_and_source():
    metrics = Metrics()
    metrics.request("/v1/slowdown", 200, 0.1, {("colocast-interference/3", "model"): 7})
    wanted = 'model_version="colocast-interference/3",route="/v1/slowdown",source="model"} 7.0'
    assert wanted in page(metrics)


def test_models_say_what_serves_and_what_was_refused():
    metrics = Metrics()
    good = ServedModel("colocast-interference", "3", "d", 12.0)
    bad = ServedModel("colocast-memory", None, None, None, "4", "digest")
    metrics.models((good, bad), 5, registry_up=False)
    text = page(metrics)
    assert 'colocast_model_version{model="colocast-interference"} 3.0' in text
    assert 'colocast_model_version{model="colocast-memory"} 0.0' in text
    assert 'colocast_model_refused{model="colocast-memory"} 1.0' in text
    assert "colocast_model_swaps 5.0" in text
    assert "colocast_registry_up 0.0" in text


def test_sequence_of_the_job_log_is_told():
    metrics = Metrics()
    metrics.sequence(42)
    assert "colocast_job_log_sequence 42.0" in page(metrics)


def test_what_no_model_said_is_counted_as_fallback():
    metrics = Metrics()
    counts = {("m/3", "model"): 5, ("none", "cold_start"): 2, ("m/3", "exclusive"): 4}
    metrics.request("/v1/placements", 200, 0.1, counts)
    text = page(metrics)
    assert 'colocast_fallbacks_total{route="/v1/placements",source="cold_start"} 2.0' in text
    assert text.count("colocast_fallbacks_total{") == 1


def test_versions_without_end_do_not_fill_the_memory():
    metrics = Metrics()
    for number in range(2 * MOST_VERSIONS):
        metrics.request("/v1/slowdown", 200, 0.1, {(f"m/{number}", "model"): 1})
    text = page(metrics)
    assert text.count("colocast_estimates_total{") == MOST_VERSIONS + 1
    rest = f'model_version="{LATER}",route="/v1/slowdown",source="model"}} {MOST_VERSIONS}.0'
    assert rest in text


def test_age_of_the_champion_and_live_error_are_told():
    metrics = Metrics()
    metrics.ages({"colocast-interference": 90.0})
    metrics.live_error("runtime", 12, 0.25)
    text = page(metrics)
    assert 'colocast_model_age_seconds{model="colocast-interference"} 90.0' in text
    assert 'colocast_live_error{kind="runtime"} 0.25' in text
    assert 'colocast_live_outcomes{kind="runtime"} 12.0' in text


def full(metrics):
    """Use every metric."""
    metrics.request("/v1/slowdown", 200, 0.1, {("m/3", "model"): 5, ("none", "cold_start"): 2})
    served = tuple(ServedModel(name, "3", "d", 12.0) for name in REGISTERED_MODELS)
    metrics.models(served, 5, registry_up=True)
    metrics.ages(dict.fromkeys(REGISTERED_MODELS, 7.0))
    metrics.live_error("runtime", 12, 0.25)
    metrics.shadow("runtime", 3, 0.1, 0.2)
    metrics.sequence(42)


def test_promtool_finds_nothing_to_say():
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("no promtool on PATH; Debian has it in the package prometheus")
    metrics = Metrics()
    full(metrics)
    checked = subprocess.run(
        [promtool, "check", "metrics"], input=metrics.page(), capture_output=True, check=False
    )
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, b"", b"")


WORKER = """
import os, sys, time
from serving.metrics import METRICS
METRICS.request("/v1/slowdown", 200, 0.1, {("m/3", "model"): int(sys.argv[1])})
METRICS.live_error("runtime", int(sys.argv[1]), 0.5)
print(METRICS.page().decode() if sys.argv[2:] else "up", flush=True)
sys.stdin.readline()
"""


class Worker:
    """A process with metrics, in a folder that it shares with others."""

    def __init__(self, folder, *arguments):
        self.process = subprocess.Popen(
            [sys.executable, "-c", WORKER, *arguments],
            env={**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(folder)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def said(self):
        """Let it end by itself, and return what it said."""
        return self.process.communicate("\n", timeout=60)[0]

    def kill(self):
        assert self.process.stdout.readline() == "up\n"
        self.process.send_signal(signal.SIGKILL)
        self.process.communicate(timeout=60)


def test_workers_add_up_and_the_dead_ones_gauges_go(tmp_path):
    Worker(tmp_path, "3").kill()
    Worker(tmp_path, "4").kill()
    text = Worker(tmp_path, "5", "page").said()
    assert 'model_version="m/3",route="/v1/slowdown",source="model"} 12.0' in text
    assert 'colocast_live_outcomes{kind="runtime"} 5.0' in text
    assert len(list(tmp_path.glob("gauge_*.db"))) == 1  # of the last one, which has just ended
    forget_dead_workers(tmp_path)
    assert list(tmp_path.glob("gauge_*.db")) == []
    assert len(list(tmp_path.glob("counter_*.db"))) == 3


def test_room_for_metrics_is_taken_before_they_are_made(tmp_path):
    environ = {"PROMETHEUS_MULTIPROC_DIR": str(tmp_path / "new")}
    prepare_files(environ)
    assert {path.stat().st_size for path in (tmp_path / "new").iterdir()} == {FILE_BYTES}
    assert environ == {"PROMETHEUS_MULTIPROC_DIR": str(tmp_path / "new")}


def test_metrics_move_where_there_is_room(tmp_path, caplog):
    (tmp_path / "file").write_text("")
    environ = {"PROMETHEUS_MULTIPROC_DIR": str(tmp_path / "file" / "no")}
    prepare_files(environ, tmp_path)
    (moved,) = [path for path in tmp_path.iterdir() if path.is_dir()]
    assert environ == {"PROMETHEUS_MULTIPROC_DIR": str(moved)}
    assert "metrics go to" in caplog.text


def test_without_several_workers_no_file_is_made(tmp_path):
    environ = {}
    prepare_files(environ, tmp_path)
    assert environ == {}
    assert list(tmp_path.iterdir()) == []
