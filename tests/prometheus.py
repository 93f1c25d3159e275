"""A private Prometheus for tests: real, on a free loopback port, gone afterwards."""

import http.server
import shutil
import subprocess
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.ports import free_port

READY_S = 30.0


def program(name: str) -> str:
    """Path of ``prometheus`` or ``promtool``; skips the test, with the reason, without it."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"no {name} on PATH; Debian: apt-get install prometheus")
    return found


@contextmanager
def prometheus(
    targets: Mapping[str, int], scrape_s: float = 0.25, openmetrics: str = ""
) -> Iterator[str]:
    """Run a fresh server for the block, and yield its address.

    Parameters
    ----------
    targets : mapping of scrape job to loopback port
    scrape_s : float
    openmetrics : str
        Samples of the past to begin with, in OpenMetrics text.
    """
    binary, tool = program("prometheus"), program("promtool")
    folder = Path(tempfile.mkdtemp(prefix="colocast-prom-"))
    try:
        if openmetrics:
            past = folder / "past.txt"
            past.write_text(openmetrics)
            blocks = [tool, "tsdb", "create-blocks-from", "openmetrics", past, folder / "data"]
            subprocess.run(blocks, check=True, capture_output=True)
        config = folder / "prometheus.yml"
        config.write_text(_config(targets, scrape_s))
        port = free_port()
        command = [
            binary,
            f"--config.file={config}",
            f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{port}",
            "--storage.tsdb.retention.time=100y",
        ]
        with (folder / "log").open("w") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            url = f"http://127.0.0.1:{port}"
            _await(f"{url}/-/ready", process, folder / "log")
            yield url
        finally:
            process.kill()
            process.wait()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def exporter(page: Callable[[], str]) -> Iterator[int]:
    """Serve what `page` returns at each scrape, and yield the port."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = page().encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()


def _config(targets: Mapping[str, int], scrape_s: float) -> str:
    lines = [f"global: {{scrape_interval: {round(scrape_s * 1000)}ms}}", "scrape_configs:"]
    for name, port in targets.items():
        target = f"[{{targets: ['127.0.0.1:{port}']}}]"
        lines.append(f"- {{job_name: {name}, static_configs: {target}}}")
    return "\n".join(lines if targets else lines[:1]) + "\n"


def _await(url: str, process: "subprocess.Popen[bytes]", log: Path) -> None:
    deadline = time.monotonic() + READY_S
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.05)
    raise RuntimeError(f"prometheus did not come up: {log.read_text()[-2000:]}")
