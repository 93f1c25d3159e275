"""``colocast submit`` and ``colocast schedule`` as a user starts them."""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from pathlib import Path

import pytest
from click.testing import CliRunner

from data.errors import SettingError
from pipelines.commands import submit
from scheduler_client.jobs.spool import JobState, Spool
from tests.ports import free_port

QUEUES = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: research}
spec:
  resourceGroups:
  - coveredResources: [nvidia.com/gpu]
    flavors: [{name: any, resources: [{name: nvidia.com/gpu, nominalQuota: 8}]}]
"""


@pytest.fixture
def home(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLOCAST_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLOCAST_SCHEDULER_PORT", str(free_port()))
    return tmp_path / "home"


@pytest.fixture
def spool(home):
    spool = Spool(home / "spool.db")
    yield spool
    spool.close()


def submitted(*words: str) -> str:
    runner = CliRunner()
    result = runner.invoke(submit.command, words, standalone_mode=False, catch_exceptions=False)
    return result.output.strip()


def test_submit_queues_a_command_and_prints_its_id(spool, tmp_path):
    words = ("--user", "ada", "--gpus", "2", "--gpu-mem-mib", "100", "--limit", "60")
    more = ("--priority", "-3", "--structure", '{"family": "bert", "batch_size": 8}')
    job_id = submitted(*words, *more, "--env", "SEED=7", "--", "sleep", "--version")
    (job,) = spool.jobs(JobState.PENDING)
    asked = job.submission
    assert job.job_id == job_id
    assert Path(asked.command[0]).is_absolute()
    assert asked.command[1:] == ("--version",)
    assert (asked.user, asked.queue, asked.job_key) == ("ada", "ada", "sleep --version")
    assert (asked.gpus, asked.gpu_mem_mib, asked.limit_s, asked.priority) == (2, 100, 60.0, -3)
    assert asked.structure.family == "bert"
    assert asked.working_directory == str(tmp_path)
    assert asked.environment == {"SEED": "7"}


def test_options_of_the_command_are_its_own(spool):
    submitted("--user", "ada", "--", "sleep", "--gpus", "9")
    (job,) = spool.jobs(JobState.PENDING)
    assert (job.submission.gpus, job.submission.command[1:]) == (1, ("--gpus", "9"))


def test_a_structure_may_come_from_a_file(spool, tmp_path):
    (tmp_path / "model.json").write_text('{"family": "gpt", "batch_size": 1}')
    submitted("--structure", "@model.json", "--", "true")
    assert spool.jobs(JobState.PENDING)[0].submission.structure.family == "gpt"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "found no command"),
        (("--", "no-such-program"), "found no program 'no-such-program'"),
        (("--gpus", "0", "--", "true"), "gpus must be a whole number"),
        (("--user", "a b", "--", "true"), "user must be"),
        (("--structure", "{", "--", "true"), "structure: found no JSON"),
        (("--structure", "{}", "--", "true"), "no field 'batch_size', 'family'"),
        (("--structure", "@none.json", "--", "true"), "cannot be read"),
        (("--env", "SEED", "--", "true"), "found 'SEED', wanted NAME=VALUE"),
        (("--limit", "nan", "--", "true"), "limit_s must be seconds above 0"),
    ],
)
def test_what_cannot_run_is_refused_at_once(spool, words, said):
    with pytest.raises(SettingError, match=said):
        submitted(*words)
    assert spool.jobs(JobState.PENDING) == ()


def test_an_unknown_queue_is_refused(home, spool):
    home.joinpath("scheduler.yaml").write_text(QUEUES)
    with pytest.raises(SettingError, match="queue: found 'vision', wanted one of 'research'"):
        submitted("--queue", "vision", "--", "true")
    assert submitted("--queue", "research", "--", "true")


def test_the_queues_of_the_last_scheduler_count_where_there_is_no_file(spool):
    spool.note("queues", ["research"])
    with pytest.raises(SettingError, match="wanted one of 'research'"):
        submitted("--user", "ada", "--", "true")


def test_a_long_command_line_has_a_short_key(spool):
    submitted("--", "sleep", "x" * 500)
    submitted("--", "sleep", "x" * 501)
    first, second = (job.submission.job_key for job in spool.jobs(JobState.PENDING))
    assert len(first) <= 120
    assert first != second


class Scheduler:
    """A scheduler process."""

    def __init__(self, *options: str, log: Path) -> None:
        command = [sys.executable, "-m", "pipelines", "schedule", "--cycle-s", "0.05", *options]
        with log.open("a") as file:
            self.process = subprocess.Popen(command, stderr=file, cwd=log.parent)

    def ended(self) -> int:
        return self.process.wait(30)


@pytest.fixture
def scheduler(mortal_service, home, tmp_path):
    """Start schedulers on the fake service; end what is left of them."""
    started: list[Scheduler] = []

    def start(*options: str) -> Scheduler:
        url = ("--service-url", mortal_service.url)
        started.append(Scheduler(*url, *options, log=tmp_path / "log.jsonl"))
        return started[-1]

    yield start
    for each in started:
        each.process.kill()
        each.process.wait()


def log_of(folder: Path) -> list[dict]:
    return [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]


def test_schedule_runs_everything_reports_it_and_ends(scheduler, mortal_service, spool, tmp_path):
    ids = [submitted("--user", u, "--gpu-mem-mib", "9", "--", "sleep", "0.1") for u in "aabbb"]
    options = ("--slots", "1", "--until-empty", "--report", "out/report.json")
    assert scheduler(*options).ended() == 0
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert {job["job_id"] for job in mortal_service.delivered()} == set(ids)
    assert {job["job_id"] for job in report["jobs"]} == set(ids)
    assert report["left"] == {"pending": 0, "undelivered": 0, "refused": 0}
    shared = [job for job in report["jobs"] if job["neighbour_keys"]]
    assert shared, "the fake service tolerates every pair"
    assert shared[0]["predicted_slowdown"] == 1.2
    assert shared[0]["model_version"] == "fake/1"
    assert report["levels"] == {"model": 5}
    wanted = {"job_id", "card_ids", "neighbours", "slowdown", "level", "model_version"}
    assert all(wanted <= set(e) for e in log_of(tmp_path) if e["event"] == "started")


def test_what_cannot_start_is_left_and_said(scheduler, spool, tmp_path):
    submitted("--gpus", "64", "--", "true")
    assert scheduler("--until-empty", "--report", "report.json").ended() == 1
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["waiting"][0]["reason"] == "impossible"
    assert report["left"]["pending"] == 1


def test_sigterm_ends_the_jobs_and_the_next_start_runs_them_again(
    scheduler, mortal_service, spool, eventually
):
    job_id = submitted("--gpu-mem-mib", "9", "--", "sleep", "0.8")
    first = scheduler()
    eventually(lambda: spool.jobs(JobState.RUNNING), 20.0)
    first.process.send_signal(signal.SIGTERM)
    assert first.ended() == 0
    assert scheduler("--until-empty").ended() == 0
    found = {job["attempt"]: job["outcome"] for job in mortal_service.delivered()}
    assert found == {1: "preempted", 2: "ok"}
    assert {job["job_id"] for job in mortal_service.delivered()} == {job_id}


def test_a_scheduler_that_is_killed_loses_nothing_and_counts_nothing_twice(
    scheduler, mortal_service, spool, eventually, tmp_path
):
    pids, go = tmp_path / "pids", tmp_path / "go"
    script = (
        f"import os, time; open({str(pids)!r}, 'a').write(f'{{os.getpid()}}\\n')\n"
        f"while not os.path.exists({str(go)!r}): time.sleep(0.02)"
    )
    long = submitted("--gpu-mem-mib", "9", "--", sys.executable, "-c", script)
    short = [submitted("--gpu-mem-mib", "9", "--", "sleep", "0.05") for _ in range(3)]
    first = scheduler("--slots", "2")
    eventually(lambda: pids.exists() and len(mortal_service.delivered()) == 3, 20.0)
    first.process.kill()
    first.process.wait()
    eventually(lambda: not Path(f"/proc/{pids.read_text().split()[0]}").exists(), 5.0)
    go.touch()
    assert scheduler("--until-empty").ended() == 0
    delivered = Counter(
        (j["job_id"], j["attempt"], j["outcome"]) for j in mortal_service.delivered()
    )
    assert delivered == Counter(
        [*((job_id, 1, "ok") for job_id in short), (long, 1, "node_fail"), (long, 2, "ok")]
    )


def test_only_one_scheduler_runs_on_a_spool(scheduler, spool, eventually, tmp_path):
    first = scheduler()
    lock = tmp_path / "home" / "spool.db.lock"
    eventually(lambda: lock.exists() and lock.read_text() == str(first.process.pid), 20.0)
    assert scheduler("--no-status").ended() == 2
    assert f"runs already (pid {first.process.pid})" in (tmp_path / "log.jsonl").read_text()


def test_status_and_metrics_are_served(scheduler, spool, eventually, tmp_path):
    submitted("--gpus", "64", "--", "true")
    scheduler()
    url = f"http://127.0.0.1:{os.environ['COLOCAST_SCHEDULER_PORT']}"

    def answered() -> bool:
        try:
            with urllib.request.urlopen(f"{url}/status", timeout=5) as response:
                return response.status == 200
        except OSError:
            return False

    eventually(answered, 20.0)
    with urllib.request.urlopen(f"{url}/status", timeout=5) as response:
        status = json.loads(response.read())
    with urllib.request.urlopen(f"{url}/metrics", timeout=5) as response:
        metrics = response.read().decode()
    assert status["waiting"][0]["reason"] == "impossible"
    assert 'colocast_scheduler_waiting_jobs{reason="impossible"} 1' in metrics


def test_the_scheduler_is_light(scheduler, mortal_service, spool, eventually):
    submitted("--gpu-mem-mib", "9", "--", "sleep", "5")
    running = scheduler()
    eventually(lambda: spool.jobs(JobState.RUNNING), 20.0)
    time.sleep(0.2)
    status = Path(f"/proc/{running.process.pid}/status").read_text()
    rss_mib = int(status.split("VmRSS:")[1].split()[0]) / 1024
    assert rss_mib < 120
    names = (Path(f"/proc/{running.process.pid}/maps")).read_text()
    assert "pandas" not in names
