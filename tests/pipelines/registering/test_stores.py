"""The registry on PostgreSQL, and behind a server that wants a password."""

import base64
import http.client
import os
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.request import urlopen

import pytest

from data.errors import RegistryError
from pipelines.registering.registry import Registry
from tests.pipelines.retraining.test_challenge import REPORT, bundle
from tests.ports import free_port
from tests.postgres import postgresql

NAME = "colocast-memory"
LONGEST_S = 180.0
WANTED = "Basic " + base64.b64encode(b"ada:secret").decode()


def used(registry):
    """Register twice, promote twice and go back; return what is loaded then."""
    for error in (0.2, 0.1):
        registry.promote(NAME, registry.register(bundle(NAME, error), REPORT))
    assert registry.rollback(NAME) == "1"
    assert [each.aliases for each in registry.versions(NAME)] == [("previous",), ("champion",)]
    return registry.load(NAME, "champion")


@pytest.mark.slow
def test_a_postgresql_store_keeps_runs_versions_aliases_and_files(tmp_path):
    with postgresql() as server:
        registry = Registry(server.url, tmp_path / "artifacts")
        assert used(registry).version == f"{NAME}/1"
        assert any((tmp_path / "artifacts").rglob("model.skops"))


@contextmanager
def mlflow_server(folder):
    """A real MLflow server on a free port; its address."""
    port = free_port()
    command = [
        *(sys.executable, "-m", "mlflow", "server", "--workers", "1", "--host", "127.0.0.1"),
        *("--port", str(port), "--backend-store-uri", f"sqlite:///{folder}/mlflow.db"),
        *("--artifacts-destination", str(folder / "artifacts")),
    ]
    environ = {k: v for k, v in os.environ.items() if k != "MLFLOW_TRACKING_URI"}
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            command, stdout=log, stderr=log, env=environ, start_new_session=True
        )
    try:
        deadline = time.monotonic() + LONGEST_S
        while not _answers(f"http://127.0.0.1:{port}/health"):
            assert time.monotonic() < deadline, (folder / "log").read_text()
            time.sleep(0.2)
        yield port
    finally:
        os.killpg(process.pid, 15)
        process.wait()


def _answers(url):
    try:
        with urlopen(url, timeout=1) as answer:
            return answer.status == 200
    except OSError:
        return False


@contextmanager
def gate(port):
    """What stands before a server and lets nobody in without the password."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _pass(self):
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            if self.headers.get("Authorization") != WANTED:
                self._say(401, {}, b"who are you?")
                return
            asked = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            headers = {k: v for k, v in self.headers.items() if k not in {"Host", "Authorization"}}
            asked.request(self.command, self.path, body, headers)
            answer = asked.getresponse()
            kept = {k: v for k, v in answer.getheaders() if k == "Content-Type"}
            self._say(answer.status, kept, answer.read())
            asked.close()

        def _say(self, status, headers, body):
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _pass

        def log_message(self, *arguments):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.slow
def test_a_server_behind_a_password_is_used_with_mlflows_own_variables(
    settings, tmp_path, monkeypatch
):
    with mlflow_server(settings.home) as port, gate(port) as url:
        with pytest.raises(RegistryError, match="could not open the registry"):
            Registry(url, tmp_path)
        monkeypatch.setenv("MLFLOW_TRACKING_USERNAME", "ada")
        monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", "secret")
        assert used(Registry(url, tmp_path)).version == f"{NAME}/1"
