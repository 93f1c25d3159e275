"""Fakes that the scheduler's tests share: a real service process, and small literal values."""

import json
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from data.domain import JobRequest, Resident
from scheduler_client.policy.view import CardState, PendingJob

SCRIPT = Path(__file__).with_name("fake_service.py")


class FakeService:
    """Starts, kills, freezes and steers the process of `fake_service.py`, on one port."""

    def __init__(self, delivered: Path) -> None:
        self.port, self.delivered_path = 0, delivered
        self.process: subprocess.Popen[str] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        command = [sys.executable, "-I", str(SCRIPT), str(self.port), str(self.delivered_path)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.port = int(self.process.stdout.readline())

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process.stdout.close()
            self.process = None

    def freeze(self) -> None:
        self.process.send_signal(signal.SIGSTOP)
        tasks = Path(f"/proc/{self.process.pid}/task")
        while any(_state(task) != "T" for task in tasks.iterdir()):
            time.sleep(0.001)  # the threads stop one after the other

    def thaw(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def mode(self, mode: str) -> None:
        request = urllib.request.Request(f"{self.url}/control", mode.encode(), method="POST")
        with urllib.request.urlopen(request, timeout=5):
            pass

    def delivered(self) -> list[dict]:
        if not self.delivered_path.exists():
            return []
        lines = self.delivered_path.read_text().splitlines(keepends=True)
        # The service may be in the middle of the newest line.
        return [json.loads(line) for line in lines if line.endswith("\n")]


def _state(task: Path) -> str:
    try:
        return (task / "stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return "T"  # it has ended


@pytest.fixture(scope="module")
def module_service(tmp_path_factory):
    service = FakeService(tmp_path_factory.mktemp("service") / "delivered.jsonl")
    service.start()
    yield service
    service.kill()


@pytest.fixture
def service(module_service) -> FakeService:
    """A well-behaved service; shared by a module, so do not kill it."""
    module_service.mode("ok")
    return module_service


@pytest.fixture
def mortal_service(tmp_path):
    """A service of one test's own, to be killed."""
    service = FakeService(tmp_path / "delivered.jsonl")
    service.start()
    yield service
    service.kill()


@pytest.fixture
def eventually() -> Callable[[Callable[[], object], float], None]:
    """Wait until something holds; fail when a deadline passes first."""

    def wait(holds: Callable[[], object], within_s: float = 10.0) -> None:
        deadline = time.monotonic() + within_s
        while not holds():
            assert time.monotonic() < deadline, "it did not happen in time"
            time.sleep(0.01)

    return wait


def job_request(job_id: str = "1", **fields: object) -> JobRequest:
    values = {"user": "ada", "queue": "research", "job_key": "bert", "submit_time": 0.0, **fields}
    return JobRequest(job_id=job_id, **values)


@pytest.fixture
def a_job() -> Callable[..., JobRequest]:
    return job_request


@pytest.fixture
def a_pending() -> Callable[..., PendingJob]:
    """Make a pending job; fields of the request and of the pending job alike."""

    def make(job_id: str = "1", **fields: object) -> PendingJob:
        own = {n: fields.pop(n) for n in ("priority", "attempt", "gpu_model") if n in fields}
        return PendingJob(job_request(job_id, **fields), **own)

    return make


@pytest.fixture
def a_card() -> Callable[..., CardState]:
    """Make a card with 8,192 MiB, residents named by their keys."""

    def make(card_id: str = "gpu0", *keys: str, **fields: object) -> CardState:
        residents = tuple(Resident(f"{card_id}-{n}", key) for n, key in enumerate(keys))
        values = {"gpu_model": "A100", "total_mem_mib": 8192, "free_mem_mib": 8192, **fields}
        return CardState(card_id, residents=residents, **values)

    return make
