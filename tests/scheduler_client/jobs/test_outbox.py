import random
import signal
import sqlite3
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from data.domain import FinishedJob, Outcome, Segment
from data.errors import JobLogError, WireError
from data.joblog import JobLog
from scheduler_client.jobs import outbox as module
from scheduler_client.jobs.outbox import Outbox

JOB = FinishedJob(
    "j0", 1, "ada", "research", "bert", 1, 0.1, 0.2, 0.1 + 0.2, Outcome.OK,
    segments=(Segment(0.2, 0.3, "slot0", "cpu", ("sort",)),), signals={"gpu_util_mean": 1 / 3},
)  # fmt: skip


def jobs(count):
    return [replace(JOB, job_id=f"j{i}") for i in range(count)]


@pytest.fixture
def outbox(tmp_path):
    with Outbox(tmp_path / "state" / "outbox.db") as opened:
        yield opened


def test_a_job_stays_pending_until_it_is_acknowledged(outbox):
    for job in jobs(3):
        assert outbox.put(job)
    assert outbox.pending() == tuple(jobs(3))
    assert outbox.pending(limit=1) == (JOB,)
    assert outbox.acknowledge([("j0", 1), ("j2", 1), ("j9", 1)]) == 2
    assert [job.job_id for job in outbox.pending()] == ["j1"]
    assert outbox.backlog() == 1


def test_the_first_record_of_an_attempt_stands_even_after_acknowledgement(outbox):
    outbox.put(JOB)
    assert not outbox.put(replace(JOB, finish_time=9.0))
    assert outbox.pending() == (JOB,)
    outbox.acknowledge([("j0", 1)])
    assert not outbox.put(JOB)
    assert outbox.pending() == ()
    assert outbox.acknowledge([("j0", 1)]) == 0
    assert outbox.put(replace(JOB, attempt=2))


def test_a_refused_job_is_kept_with_its_reason_and_holds_up_nobody(outbox):
    for job in jobs(2):
        outbox.put(job)
    assert outbox.set_aside([("j0", 1), ("j7", 1)], "409: another content") == 1
    assert [job.job_id for job in outbox.pending()] == ["j1"]
    assert outbox.refused() == ((JOB, "409: another content"),)
    assert outbox.acknowledge([("j0", 1)]) == 0


def test_an_impossible_job_is_refused_at_once(outbox):
    with pytest.raises(WireError, match="finish_time"):
        outbox.put(replace(JOB, finish_time=0.0))
    assert outbox.backlog() == 0


def test_acknowledged_keys_are_forgotten_in_the_end_but_nothing_else(outbox, monkeypatch):
    monkeypatch.setattr(module, "REMEMBERED", 3)
    for job in jobs(6):
        outbox.put(job)
    outbox.acknowledge([(f"j{i}", 1) for i in range(1, 6)])
    assert outbox.pending() == (JOB,)
    assert not outbox.put(replace(JOB, job_id="j5"))
    assert outbox.put(replace(JOB, job_id="j1"))


def test_threads_share_an_outbox(outbox):
    threads = [
        threading.Thread(target=lambda: [outbox.put(job) for job in jobs(20)]) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert outbox.backlog() == 20


def test_an_error_between_two_statements_rolls_both_back(outbox):
    outbox.put(JOB)

    def keys():
        yield ("j0", 1)
        raise ZeroDivisionError("while acknowledging")

    with pytest.raises(ZeroDivisionError, match="while acknowledging"):
        outbox.acknowledge(keys())
    assert outbox.pending() == (JOB,)


def test_a_locked_file_is_named(outbox, tmp_path):
    outbox._connection.execute("PRAGMA busy_timeout = 20")
    holder = sqlite3.connect(tmp_path / "state" / "outbox.db", isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    with pytest.raises(JobLogError, match=r"outbox .*outbox\.db: the database stayed locked"):
        outbox.put(JOB)
    holder.close()
    assert outbox.put(JOB)


def test_a_full_disk_is_named_and_what_was_put_before_stays(outbox):
    outbox.put(JOB)
    outbox._connection.execute("PRAGMA max_page_count = 8")
    with pytest.raises(JobLogError, match=r"is full .* free some space"):
        list(map(outbox.put, jobs(1000)))
    assert outbox.pending(1) == (JOB,)


@pytest.mark.parametrize("name", ["/proc/1/nothing/outbox.db", "/proc/outbox.db"])
def test_a_folder_that_cannot_be_written_is_named(name):
    with pytest.raises(JobLogError, match=r"outbox /proc/.*; create its folder"):
        Outbox(Path(name))


def test_a_file_of_another_kind_is_named(tmp_path):
    (tmp_path / "outbox.db").write_bytes(b"no database" * 200)
    with pytest.raises(JobLogError, match="not a SQLite database; move it away"):
        Outbox(tmp_path / "outbox.db")


REPORTER = """
import sys
from pathlib import Path
from data.joblog import JobLog
from scheduler_client.jobs.outbox import Outbox
from tests.scheduler_client.jobs.test_outbox import jobs

outbox, log = Outbox(Path(sys.argv[1])), JobLog(sys.argv[2])
for job in jobs(400):
    outbox.put(job)
    print(job.job_id, flush=True)  # from here on the scheduler has forgotten it
    pending = outbox.pending(5)
    log.append(pending)
    outbox.acknowledge([(job.job_id, job.attempt) for job in pending])
"""


def test_sigkill_at_any_moment_loses_nothing_and_counts_nothing_twice(tmp_path):
    path, url = tmp_path / "outbox.db", f"sqlite:///{tmp_path}/joblog.db"
    chance, forgotten = random.Random(7), set()
    for _ in range(4):
        forgotten |= _run_until_killed(path, url, after=chance.randint(1, 60))
    with Outbox(path) as outbox, JobLog(url) as log:
        pending = outbox.pending(1000)
        log.append(pending)  # none of them conflicts with what was logged
        logged = [job.job_id for _, job in log.since(0, 10_000)]
    assert forgotten <= set(logged)
    assert len(logged) == len(set(logged))


def _run_until_killed(path, url, after):
    command = [sys.executable, "-c", REPORTER, str(path), url]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        lines = [process.stdout.readline() for _ in range(after)]
        process.send_signal(signal.SIGKILL)
        lines += process.stdout.readlines()
    assert process.returncode == -signal.SIGKILL
    return {line.strip() for line in lines if line.strip()}
