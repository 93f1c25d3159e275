"""The service as a real process: BentoML, its workers, the registry and the job log."""

import json
import shutil
import signal
import socket
import subprocess
import sys
import threading
from http.client import HTTPConnection

import mlflow
import pytest

from pipelines.registering.push import push
from serving.champions.files import bundle_digest
from tests.serving.running import RunningService, until

NAME = "colocast-interference"
PAIRS = {
    "pairs": [{"job_key": f"k{n}", "neighbour_key": "k2", "gpu_model": "v100"} for n in range(4)]
}

pytestmark = pytest.mark.slow


class Registry:
    """MLflow with three versions of the interference model."""

    def __init__(self, uri, versions):
        self.uri = uri
        self.client = mlflow.MlflowClient(uri, uri)
        self.client.create_registered_model(NAME)
        self.numbers = {}
        for label in ("1", "2", "bad"):
            tags = {"colocast.digest": bundle_digest(versions[label])}
            made = self.client.create_model_version(NAME, str(versions[label]), tags=tags)
            self.numbers[label] = str(made.version)

    def promote(self, label):
        self.client.set_registered_model_alias(NAME, "champion", self.numbers[label])
        return self.numbers[label]


@pytest.fixture(scope="module")
def registry(tmp_path_factory, mlflow_template, versions):
    path = tmp_path_factory.mktemp("registry") / "mlflow.db"
    shutil.copy(mlflow_template, path)
    return Registry(f"sqlite:///{path}", versions)


@pytest.fixture(scope="module")
def started(tmp_path_factory, registry):
    """A service that was started without any champion, and what it said then."""
    service = RunningService(tmp_path_factory.mktemp("service") / "home", registry.uri)
    try:
        yield service, service.wait_up()
    finally:
        service.stop()


@pytest.fixture
def service(started, registry):
    """The same service once version 1 answers."""
    service, _ = started
    number = registry.promote("1")
    until(lambda: service.serving()["version"] == number)
    return service


def test_without_champion_the_service_is_up_but_not_ready_and_says_why(started):
    _, (status, body) = started
    assert status == 503
    assert b"no version of colocast-interference has the alias champion" in body


def test_champion_that_appears_makes_it_ready(service):
    assert service.ask("GET", "/readyz")[0] == 200
    status, answer = service.post("/v1/slowdown", PAIRS)
    assert status == 200
    assert {e["model_version"] for e in answer["estimates"]} == {f"{NAME}/1"}


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("/", b"swagger-ui"),
        ("/static_content/swagger-ui-bundle.js", b"SwaggerUI"),
        ("/docs.json", b"/v1/placements"),
        ("/openapi.json", b"/v1/placements"),
        ("/livez", b""),
        ("/metrics", b"colocast_request_seconds"),
    ],
)
def test_pages_beside_the_routes_answer(service, path, text):
    service.post("/v1/slowdown", PAIRS)
    status, body = service.ask("GET", path)
    assert status == 200
    assert text in body


def test_supervisor_needs_nothing_heavy():
    heavy = "{'pandas', 'sklearn', 'mlflow'}"
    check = f"import sys, serving.service; print(sorted({heavy} & set(sys.modules)))"
    shown = subprocess.run(
        [sys.executable, "-c", check], capture_output=True, text=True, check=True
    )
    assert shown.stdout.strip() == "[]"


def test_page_for_people_asks_nothing_of_the_internet(service):
    assert b"//" not in service.ask("GET", "/")[1]


def test_bad_version_is_refused_reported_and_the_old_one_stays(service, registry):
    number = registry.promote("bad")
    until(lambda: service.serving()["refused_version"] == number)
    assert service.serving()["version"] == "1"
    assert "stored example" in service.serving()["refused_reason"]
    assert service.post("/v1/slowdown", PAIRS)[0] == 200
    wanted = f'colocast_model_refused{{model="{NAME}"}} 1.0'.encode()
    assert until(lambda: wanted in service.ask("GET", "/metrics")[1])


class Load:
    """Asks over a few kept connections until told to stop; keeps every answer."""

    def __init__(self, service, connections=3):
        self.service, self.answers, self.failures = service, [], []
        self.stopped = threading.Event()
        self.threads = [threading.Thread(target=self.run) for _ in range(connections)]

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *error):
        self.stopped.set()
        for thread in self.threads:
            thread.join()

    def run(self):
        connection = HTTPConnection("127.0.0.1", self.service.port, timeout=30)
        while not self.stopped.is_set():
            try:
                status, body = self.service.ask("POST", "/v1/slowdown", PAIRS, connection)
                estimates = json.loads(body)["estimates"]
                versions = {estimate["model_version"] for estimate in estimates}
                self.answers.append((status, frozenset(versions)))
            except (OSError, ValueError, KeyError) as error:
                self.failures.append(repr(error))
        connection.close()


def test_swaps_under_load_fail_no_request_and_mix_no_versions(service, registry):
    with Load(service) as load:
        for label in ("2", "1", "2"):
            number = registry.promote(label)
            until(lambda number=number: service.serving()["version"] == number)
            count = len(load.answers)
            until(lambda count=count: len(load.answers) > count + 20)
    assert load.failures == []
    assert {status for status, _ in load.answers} == {200}
    assert {versions for _, versions in load.answers} == {
        frozenset({f"{NAME}/1"}),
        frozenset({f"{NAME}/2"}),
    }


def test_finished_jobs_survive_a_restart_and_registry_outage(tmp_path, started, service):
    """A second service of the same home: no MLflow, the cache and the job log."""
    from serving.web.examples import EXAMPLES

    assert service.post("/v1/finished", EXAMPLES["/v1/finished"])[1]["sequence"] == 1
    home = tmp_path / "home"
    shutil.copytree(service.home, home)
    second = RunningService(home, "http://127.0.0.1:9")
    try:
        second.wait_ready()
        assert second.post("/v1/slowdown", PAIRS)[1] == service.post("/v1/slowdown", PAIRS)[1]
        assert json.loads(second.ask("GET", "/v1/models")[1])["job_log_sequence"] == 1
        assert second.post("/v1/finished", EXAMPLES["/v1/finished"])[1]["duplicates"] == 1
    finally:
        second.stop()
    assert second.left() == []


def test_push_reaches_every_worker_long_before_the_next_poll(tmp_path, registry):
    """Two workers that poll once an hour; the push reaches one of them."""
    secret = tmp_path / "secret"
    secret.write_text("s" * 32)
    registry.promote("1")
    hourly = {"COLOCAST_POLL_S": "3600"}
    options = ("--workers", "2", "--push-secret-file", str(secret))
    second = RunningService(tmp_path / "home", registry.uri, *options, **hourly)
    environ = {"COLOCAST_PUSH_SECRET_FILE": str(secret), "COLOCAST_PUSH_URLS": second.url}
    try:
        second.wait_ready()
        number = registry.promote("2")
        assert push(environ, NAME, print) == 1
        until(lambda: {second.serving()["version"] for _ in range(20)} == {number}, 60)
    finally:
        second.stop()


def test_killed_service_leaves_no_worker_and_its_port_free(tmp_path, service):
    home = tmp_path / "home"
    shutil.copytree(service.home, home)
    second = RunningService(home, "http://127.0.0.1:9", "--workers", "2")
    second.wait_ready()
    assert len(second.left()) == 3  # two workers and their supervisor
    second.stop(signal.SIGKILL)
    assert second.left() == []
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", second.port))
