"""Services start, answer, and end together with everything they started."""

import os
import socket
import sys
import time

import pytest

from data.errors import ServiceStartError
from pipelines.services.processes import MOST_RESTARTS, Service, ServiceGroup, refuse_taken_port
from tests.ports import free_port


def service(code: str, **kwargs) -> Service:
    return Service("toy", (sys.executable, "-c", code), dict(os.environ), **kwargs)


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_taken_port_is_named_with_the_way_out():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(
            ServiceStartError, match=f"port {port} for mlflow.*COLOCAST_MLFLOW_PORT"
        ):
            refuse_taken_port("mlflow", port)


def test_service_that_ends_at_once_shows_the_end_of_its_log(tmp_path):
    failing = service("raise SystemExit('no disk left')", ready_url="http://127.0.0.1:9/")
    with ServiceGroup(tmp_path) as group:
        group.start(failing)
        with pytest.raises(ServiceStartError, match="no disk left"):
            group.wait_ready(failing)


def test_service_is_ready_when_its_url_answers(tmp_path):
    port = free_port()
    command = (sys.executable, "-m", "http.server", str(port), "--bind", "127.0.0.1")
    web = Service("web", command, dict(os.environ), port, f"http://127.0.0.1:{port}/")
    with ServiceGroup(tmp_path) as group:
        group.start(web)
        group.wait_ready(web)
        assert group.ended() == []
    refuse_taken_port("web", port)


def test_silent_service_is_given_up_after_its_time(tmp_path):
    silent = service(
        "import time; time.sleep(60)", ready_url="http://127.0.0.1:9/", ready_timeout_s=0.3
    )
    with ServiceGroup(tmp_path) as group:
        group.start(silent)
        with pytest.raises(ServiceStartError, match=r"within 0\.3 s"):
            group.wait_ready(silent)


def test_command_that_does_not_exist_is_named(tmp_path):
    with (
        ServiceGroup(tmp_path) as group,
        pytest.raises(ServiceStartError, match="/no/such/command"),
    ):
        group.start(Service("toy", ("/no/such/command",), {}))


def test_children_of_a_service_end_with_it(tmp_path):
    code = (
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        "print(child.pid, flush=True)\n"
        "time.sleep(60)\n"
    )
    with ServiceGroup(tmp_path) as group:
        group.start(service(code))
        deadline = time.monotonic() + 10
        while not (text := group.log_path("toy").read_text()) and time.monotonic() < deadline:
            time.sleep(0.02)
    deadline = time.monotonic() + 5
    while alive(int(text)) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not alive(int(text))


def wait_until_ended(group: ServiceGroup) -> None:
    deadline = time.monotonic() + 10
    while not group.ended() and time.monotonic() < deadline:
        time.sleep(0.02)


def test_service_that_ends_by_itself_is_started_again(tmp_path):
    with ServiceGroup(tmp_path) as group:
        group.start(service("import time; time.sleep(60)"))
        group.processes["toy"].kill()
        wait_until_ended(group)
        assert group.keep_up() == ["toy"]
        assert group.ended() == []
        assert group.restarts["toy"] == 1


def test_service_that_ends_again_and_again_is_given_up(tmp_path):
    with ServiceGroup(tmp_path) as group:
        group.start(service("raise SystemExit('no disk left')"))
        for _ in range(MOST_RESTARTS):
            wait_until_ended(group)
            group.keep_up()
        wait_until_ended(group)
        with pytest.raises(ServiceStartError, match=r"toy ended 4 times:\n(?s:.*)no disk left"):
            group.keep_up()
