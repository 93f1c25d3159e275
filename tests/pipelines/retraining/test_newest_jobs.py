from dataclasses import replace

import pytest

from data.domain import FinishedJob, Outcome
from data.joblog import JobLog
from pipelines.retraining.newest_jobs import NewestJobs

JOB = FinishedJob("1", 1, "ada", "q", "bert", 1, 0.0, 0.0, 9.0, Outcome.OK)


@pytest.fixture
def log(tmp_path):
    made = JobLog(f"sqlite:///{tmp_path}/joblog.db")
    made.append([replace(JOB, job_id=f"j{n}") for n in range(9)])
    yield made
    made.close()


@pytest.fixture
def counted(log, monkeypatch):
    """The log, and the sequence numbers after which it was read."""
    reads, since = [], log.since
    monkeypatch.setattr(log, "since", lambda n, *rest: reads.append(n) or since(n, *rest))
    return log, reads


def numbers(entries):
    return [number for number, _ in entries]


def test_what_is_kept_is_not_read_again(counted):
    log, reads = counted
    newest = NewestJobs(5)
    newest.add(log.since(0))
    assert numbers(newest.until(9, 4, log)) == [6, 7, 8, 9]
    assert reads == [0]


def test_what_is_older_than_that_is_read(counted):
    log, reads = counted
    newest = NewestJobs(5)
    newest.add(log.since(0))
    assert newest.until(9, 100, log) == log.since(0)
    assert numbers(newest.until(7, 6, log)) == [2, 3, 4, 5, 6, 7]
    assert reads.count(0) == 3


def test_after_a_restart_the_first_look_reads_and_the_next_does_not(counted):
    log, reads = counted
    newest = NewestJobs(5)
    assert numbers(newest.until(9, 5, log)) == [5, 6, 7, 8, 9]
    read = len(reads)
    assert numbers(newest.until(9, 5, log)) == [5, 6, 7, 8, 9]
    assert len(reads) == read


def test_another_log_starts_empty(counted):
    log, _ = counted
    newest = NewestJobs(5)
    newest.add([(1, JOB)])
    newest.clear()
    assert newest.until(2, 2, log) == log.since(0)[:2]
