"""The doctor names what is wrong and what to do, and passes on an empty installation."""

import socket
import time

import pytest
from click.testing import CliRunner

from data.dcgm import GPU_UTIL
from data.settings import Settings
from pipelines.commands.doctor import command
from pipelines.doctor import State, examine, home_finding, port_finding
from tests.data.prometheus.memory_source import MemorySource, series
from tests.ports import free_port


@pytest.fixture
def empty(tmp_path) -> Settings:
    ports = {f"COLOCAST_{name}_PORT": str(free_port()) for name in ("MLFLOW", "SERVICE")}
    return Settings.from_mapping({"COLOCAST_HOME": str(tmp_path / "home"), **ports}, tmp_path)


def test_empty_installation_has_nothing_broken(empty):
    findings = examine(empty, {})
    assert [finding.part for finding in findings if finding.state is State.FAIL] == []
    assert [finding.part for finding in findings if finding.state is State.NOTE] == [
        "registry",
        "champions",
        "job log",
    ]


def test_taken_port_fails_with_the_variable_that_moves_it():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        finding = port_finding("service", taken.getsockname()[1], "/readyz")
    assert finding.state is State.FAIL
    assert "COLOCAST_SERVICE_PORT" in finding.found


def test_folder_that_cannot_be_written_is_named(monkeypatch, tmp_path):
    monkeypatch.setattr("os.access", lambda path, mode: False)
    finding = home_finding(tmp_path / "home")
    assert (finding.state, finding.advice) == (State.FAIL, "set COLOCAST_HOME to a folder of yours")


def test_store_without_models_asks_for_training(settings):
    states = {finding.part: finding for finding in examine(settings, {})}
    assert states["champions"].state is State.NOTE
    assert "colocast train all" in states["champions"].advice


def test_job_log_that_is_no_database_fails(settings):
    settings.spool_path.with_name("joblog.db").write_text("not a database " * 100)
    states = {finding.part: finding for finding in examine(settings, {})}
    assert states["job log"].state is State.FAIL


def test_command_writes_its_findings(tmp_path, empty, monkeypatch):
    monkeypatch.setenv("COLOCAST_HOME", str(empty.home))
    monkeypatch.setenv("COLOCAST_MLFLOW_PORT", str(empty.mlflow_port))
    monkeypatch.setenv("COLOCAST_SERVICE_PORT", str(empty.service_port))
    result = CliRunner().invoke(command, ["--json", str(tmp_path / "out.json")])
    assert result.exit_code == 0
    assert '"part": "champions"' in (tmp_path / "out.json").read_text()


def test_a_named_prometheus_is_asked(empty, monkeypatch):
    url = f"http://127.0.0.1:{free_port()}"
    monkeypatch.setattr("data.prometheus.source.RETRIES", 0)
    down = examine(empty, {"COLOCAST_PROMETHEUS_URL": url})[-1]
    assert (down.part, down.state) == ("telemetry", State.FAIL)
    assert "does not answer" in down.found

    class Idle(MemorySource):
        def __init__(self, *_, **__):
            super().__init__(series(GPU_UTIL, [time.time() - 1], [40.0], UUID="GPU-1"))

        __enter__ = __exit__ = lambda self, *_: self

    monkeypatch.setattr("pipelines.doctor.PrometheusSource", Idle)
    up = examine(empty, {"COLOCAST_PROMETHEUS_URL": url})[-1]
    assert (up.state, up.found.split(" at ")[0]) == (State.OK, "1 of 7 signals")
