"""``colocast telemetry`` where there is no Prometheus, or an empty one."""

import pytest
from click.testing import CliRunner

from data.errors import SettingError, TelemetryError
from pipelines.commands import telemetry
from pipelines.telemetry.pull import LOG, Pulled, log_to_stderr
from tests.ports import free_port
from tests.prometheus import exporter

EMPTY = '{"status": "success", "data": {"resultType": "matrix", "result": []}}'


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("COLOCAST_HOME", str(tmp_path / "home"))
    monkeypatch.setattr("data.prometheus.source.RETRIES", 0)
    return tmp_path / "home"


def called(*words):
    return CliRunner().invoke(telemetry.command, words, standalone_mode=False)


def test_a_check_without_any_signal_exits_with_1(home):
    with exporter(lambda: EMPTY) as port:
        found = called("check", "--url", f"http://127.0.0.1:{port}")
    assert found.return_value == 1  # what `main` exits with
    assert found.output.splitlines()[0] == "gpu_util          none"


def test_profiles_of_an_empty_log_say_so(home):
    assert called("profiles").output.startswith("no profile yet")


@pytest.mark.parametrize("command", ["check", "pull"])
def test_a_configuration_that_says_nonsense_is_a_deliberate_error(home, command):
    home.mkdir()
    (home / "telemetry.yaml").write_text("delay: 3")
    assert isinstance(called(command).exception, SettingError)


def test_a_prometheus_that_is_down_is_a_deliberate_error(home):
    found = called("check", "--url", f"http://127.0.0.1:{free_port()}")
    assert isinstance(found.exception, TelemetryError)


def test_following_pulls_until_it_is_told_to_stop(home, monkeypatch):
    passes = []

    def follow(once, stop, poll_s):
        passes.append((once(), stop.is_set(), poll_s))

    monkeypatch.setattr("pipelines.telemetry.pull.follow", follow)
    monkeypatch.setattr("pipelines.telemetry.pull.log_to_stderr", lambda: None)
    url = f"http://127.0.0.1:{free_port()}"  # nothing has finished, so it is not asked
    found = called("pull", "--url", url, "--follow", "--poll-s", "7")
    assert found.exit_code == 0, found.exception
    assert passes == [(Pulled(), False, 7.0)]


def test_its_log_goes_to_stderr_alone(capsys):
    before = LOG.handlers, LOG.level, LOG.propagate
    try:
        log_to_stderr()
        LOG.info("event=pulled measured=%d", 2)
    finally:
        LOG.handlers, LOG.level, LOG.propagate = before
    seen = capsys.readouterr()
    assert seen.err.endswith("INFO event=pulled measured=2\n")
    assert seen.out == ""
