"""A prediction service with a made-up model of a site's size, as a process of its own."""

import json
import os
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import mlflow

from benchmarks.serving_sample import fleet, trained, written
from serving.champions.files import bundle_digest

NAME = "colocast-interference"
READY_S = 180


@contextmanager
def running_service(folder: Path) -> Iterator[str]:
    """Yield the address of a service that is ready; ``keys.json`` in `folder` has its job keys."""
    sample = fleet(0)
    (folder / "keys.json").write_text(json.dumps(sample.keys))
    directory = written(trained(sample, 0), folder / "version")
    uri = f"sqlite:///{folder / 'mlflow.db'}"
    client = mlflow.MlflowClient(uri, uri)
    client.create_registered_model(NAME)
    tags = {"colocast.digest": bundle_digest(directory)}
    made = client.create_model_version(NAME, str(directory), tags=tags)
    client.set_registered_model_alias(NAME, "champion", made.version)
    port = _free_port()
    url = f"http://127.0.0.1:{port}"
    home = folder / "home"
    home.mkdir()
    environment = {
        **os.environ,
        "COLOCAST_HOME": str(home),
        "MLFLOW_TRACKING_URI": uri,
        "COLOCAST_ARTIFACT_ROOTS": str(folder),
    }
    command = [sys.executable, "-m", "pipelines", "serve", "--port", str(port)]
    with (folder / "service.log").open("wb") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        try:
            _wait_ready(url, folder / "service.log")
            yield url
        finally:
            process.terminate()
            process.wait(30)
            shutil.rmtree(home, ignore_errors=True)


def _wait_ready(url: str, log: Path) -> None:
    deadline = time.monotonic() + READY_S
    while time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(f"{url}/readyz", timeout=5):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
    sys.exit(f"the service was not ready within {READY_S} s:\n{log.read_text()[-2000:]}")


def _free_port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
