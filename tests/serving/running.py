"""A prediction service as a real process, for tests that need one."""

import json
import os
import signal
import subprocess
import sys
import time
from http.client import HTTPConnection, HTTPException
from pathlib import Path

from tests.ports import free_port

READY_S = 120  # a machine that other tests share may take its time


def until(condition, seconds=READY_S):
    """Ask until the answer is true, and return it."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        answer = condition()
        if answer:
            return answer
        time.sleep(0.05)
    raise AssertionError(f"not within {seconds} s")


class RunningService:
    """Started from a directory of its own, as an installed one would be."""

    def __init__(self, home, tracking_uri, *options, **environ):
        self.port, self.home = free_port(), home
        self.log = Path(home).parent / f"service-{self.port}.log"
        Path(home).mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "pipelines", "serve", "--port", str(self.port), *options]
        variables = {
            "COLOCAST_HOME": str(home),
            "MLFLOW_TRACKING_URI": tracking_uri,
            "COLOCAST_POLL_S": "0.2",
        }
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                command,
                cwd=Path(home).parent,
                env={**os.environ, **variables, **environ},
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def ask(self, method, path, document=None, connection=None):
        """Return status and body, or None where nothing listens."""
        body = None if document is None else json.dumps(document)
        http = connection or HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            http.request(method, path, body, {"Content-Type": "application/json"})
            response = http.getresponse()
            return response.status, response.read()
        except (OSError, HTTPException):
            if connection:
                raise
            return None
        finally:
            if not connection:
                http.close()

    def post(self, path, document):
        status, body = self.ask("POST", path, document)
        return status, json.loads(body)

    def wait_up(self):
        """Wait until it answers at all; return what it says of its readiness."""
        return until(lambda: self._alive() and self.ask("GET", "/readyz"))

    def wait_ready(self):
        until(lambda: self._alive() and (self.ask("GET", "/readyz") or (0,))[0] == 200)

    def serving(self, name="colocast-interference"):
        """Return what the service says of one model."""
        models = json.loads(self.ask("GET", "/v1/models")[1])["models"]
        return next(model for model in models if model["name"] == name)

    def stop(self, number=signal.SIGTERM):
        """End it and everything it started; return the processes that are left."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        self.process.wait(30)
        until(lambda: not self.left(), 30)

    def left(self):
        """Return the processes that still run with this service's home."""
        mine = f"COLOCAST_HOME={self.home}\0".encode()
        entries = [entry for entry in Path("/proc").iterdir() if entry.name.isdigit()]
        return [int(entry.name) for entry in entries if mine in _environment(entry)]

    def _alive(self):
        if self.process.poll() is not None:
            raise AssertionError(self.log.read_text(errors="replace")[-3000:])
        return True


def _environment(entry):
    try:
        return (entry / "environ").read_bytes()
    except OSError:
        return b""
