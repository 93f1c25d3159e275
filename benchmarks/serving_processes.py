"""The real service, and a bare application that does the same, as processes to be measured."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from http.client import HTTPConnection, HTTPException
from pathlib import Path

import psutil

START_S = 120.0
PROBE_SITE = str(Path(__file__).parent / "serving_probe")
MIB = 2**20
MODEL = "COLOCAST_BENCH_MODEL"  # a version's folder, for the bare application


class Served:
    """A process group that answers HTTP on a port of this machine; a context manager.

    Parameters
    ----------
    command : list of str
        ``{port}`` in a word stands for the port.
    environ : mapping of str to str
        Added to this process's own.
    log : Path
    core : int, optional
        The one that it may run on.

    Attributes
    ----------
    ready_s : float
        From its start to the first 200 of ``/readyz``.
    ready_cpu_s : float
        What all its processes computed until then.
    """

    def __init__(
        self, command: list[str], environ: Mapping[str, str], log: Path, core: int | None = None
    ) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = int(probe.getsockname()[1])
        words = [word.format(port=self.port) for word in command]
        self._command = [*(("taskset", "-c", str(core)) if core is not None else ()), *words]
        self._environ, self.log = {**os.environ, **environ}, log
        self.ready_s = self.ready_cpu_s = float("nan")

    @property
    def url(self) -> str:
        """Address."""
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> "Served":
        """Start, and wait until it is ready."""
        # Byte code is part of every installation; see the Makefile.
        self._environ.pop("PYTHONDONTWRITEBYTECODE", None)
        start = time.perf_counter()
        self._logged_before = self.log.stat().st_size if self.log.exists() else 0
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                env=self._environ,
                stdout=log,
                stderr=log,
                cwd=self.log.parent,
                start_new_session=True,
            )
        while self.status("/readyz") != 200:
            if self._process.poll() is not None or time.perf_counter() - start > START_S:
                self.__exit__()
                raise RuntimeError(f"it did not start:\n{self.log.read_text()[-3000:]}")
            time.sleep(0.01)
        self.ready_s = time.perf_counter() - start
        spent = [process.cpu_times() for process in self._family()]
        self.ready_cpu_s = sum(each.user + each.system for each in spent)
        return self

    def __exit__(self, *error: object) -> None:
        """End it and all that it started."""
        everything = self._family()
        self._process.send_signal(signal.SIGTERM)
        _, left = psutil.wait_procs(everything, 10)
        for process in left:
            process.kill()
        self._process.wait()

    def status(self, path: str) -> int:
        """Return the status of a GET, 0 where nothing answers."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=5)
        try:
            connection.request("GET", path)
            return connection.getresponse().status
        except (OSError, HTTPException):
            return 0
        finally:
            connection.close()

    def ask(self, path: str) -> bytes:
        """Return the body of a GET."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=5)
        connection.request("GET", path)
        body = connection.getresponse().read()
        connection.close()
        return body

    def workers(self) -> list[psutil.Process]:
        """Return the processes that answer: the children, or the one process there is."""
        family = self._family()
        return [p for p in family if "worker" in " ".join(p.cmdline())] or family[:1]

    def lines_logged(self) -> int:
        """Return how many lines it has logged since its start."""
        return len(self.log.read_bytes()[self._logged_before :].splitlines())

    def rss_mib(self) -> list[float]:
        """Return the resident memory of each worker (MiB)."""
        return [process.memory_info().rss / MIB for process in self.workers()]

    def computed_s(self) -> float:
        """Return what all workers have computed since their start (s)."""
        return sum(sum(process.cpu_times()[:2]) for process in self.workers())

    def live_objects(self, folder: Path) -> int:
        """Return how many objects the first worker's collector tracks, after a collection.

        The probe must have been installed: ``PYTHONPATH`` names ``PROBE_SITE``.
        """
        (worker, *_) = self.workers()
        answer = folder / f"objects-{worker.pid}"
        answer.unlink(missing_ok=True)
        worker.send_signal(signal.SIGUSR2)
        for _ in range(1000):
            if answer.is_file() and answer.read_text().endswith("\n"):
                return int(answer.read_text())
            time.sleep(0.01)
        raise RuntimeError("the worker did not count its objects")

    def _family(self) -> list[psutil.Process]:
        try:
            top = psutil.Process(self._process.pid)
            return [top, *top.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []


def service_command(workers: int) -> list[str]:
    """Return the command of the real service."""
    python = [sys.executable, "-m", "pipelines", "serve"]
    return [*python, "--port", "{port}", "--workers", str(workers)]


def service_environment(home: Path, registry_url: str) -> dict[str, str]:
    """Return what the service needs to find its home and its registry."""
    return {"COLOCAST_HOME": str(home), "MLFLOW_TRACKING_URI": registry_url}


def empty_command() -> list[str]:
    """Return the command of a BentoML service that answers nothing: the floor of a start."""
    module = "benchmarks.serving_empty:empty"
    return [sys.executable, "-m", "bentoml", "serve", module, "--port", "{port}"]


def bare_command(workers: int) -> list[str]:
    """Return the command of the bare application, as quick as uvicorn can be."""
    quick = ["--loop", "uvloop", "--http", "httptools", "--no-access-log", "--log-level", "error"]
    app = "benchmarks.serving_bare:app"
    port = ["--port", "{port}", "--workers", str(workers)]
    return [sys.executable, "-m", "uvicorn", app, *port, *quick]
