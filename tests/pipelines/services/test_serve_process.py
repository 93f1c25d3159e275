import os
import socket
from pathlib import Path

import pytest
from click.testing import CliRunner

from data.errors import ServiceStartError, SettingError
from pipelines.commands.serve import command
from pipelines.services.serve_process import (
    check_port,
    make_writable,
    serve_command,
    serve_environment,
)
from tests.ports import free_port


@pytest.fixture
def taken():
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        yield listening.getsockname()[1]


@pytest.fixture
def free(taken):
    return free_port()


def test_command_starts_our_service_from_its_own_folder(free):
    words = serve_command("127.0.0.1", free, {})
    assert words[1:5] == ["-m", "bentoml", "serve", "serving.service:predictor"]
    folder = Path(words[words.index("--working-dir") + 1])
    assert (folder / "serving" / "service.py").is_file()


def test_taken_port_is_named_with_the_next_step(taken):
    with pytest.raises(ServiceStartError, match=f"port {taken} on .*choose another with --port"):
        check_port("127.0.0.1", taken)


def test_foreign_address_is_named_with_the_next_step(free):
    with pytest.raises(ServiceStartError, match="an address of this machine with --host"):
        check_port("192.0.2.1", free)


def test_port_is_free_on_ipv6(free):
    if not socket.has_ipv6:
        pytest.skip("no IPv6 here")
    check_port("::1", free)


def test_other_machines_are_served_only_with_tokens(free):
    with pytest.raises(SettingError, match="reachable from outside: name the bearer tokens"):
        serve_command("0.0.0.0", free, {})
    assert serve_command("0.0.0.0", free, {"COLOCAST_TOKEN_FILE": "t"})


def test_host_name_is_refused(free):
    with pytest.raises(SettingError, match="must be an IP address"):
        serve_command("localhost", free, {})


def test_token_file_is_passed_on_absolute(settings, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    environ = serve_environment({}, settings, 1, 3000, "tokens")
    assert environ["COLOCAST_TOKEN_FILE"] == str(tmp_path / "tokens")


def test_folder_that_cannot_be_written_is_named_with_the_next_step(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ServiceStartError, match="free some disk space, or set COLOCAST_HOME"):
        make_writable(tmp_path / "file" / "home")


def test_serve_becomes_the_service(settings, monkeypatch, free):
    calls = []
    monkeypatch.setattr(os, "execve", lambda *arguments: calls.append(arguments))
    monkeypatch.setenv("COLOCAST_HOME", str(settings.home))
    monkeypatch.setenv("COLOCAST_SERVICE_PORT", str(free))
    result = CliRunner().invoke(command, ["--workers", "2"], catch_exceptions=False)
    assert result.exit_code == 0
    ((program, words, environ),) = calls
    assert (program, words[-1]) == (words[0], str(free))
    assert environ["COLOCAST_WORKERS"] == "2"
