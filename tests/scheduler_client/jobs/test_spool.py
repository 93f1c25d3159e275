import sqlite3
import stat
import threading

import pytest

from data.domain import FinishedJob, ModelStructure, Outcome
from data.errors import SettingError, SpoolError
from scheduler_client.jobs.spool import KEPT_ATTEMPTS, JobState, Spool
from scheduler_client.jobs.submission import Submission

JOB = Submission(
    "ada",
    "research",
    "bert",
    ("true", "--x"),
    structure=ModelStructure("bert", 8),
    environment={"SEED": "7"},
)


@pytest.fixture
def spool(tmp_path):
    spool = Spool(tmp_path / "home" / "spool.db")
    yield spool
    spool.close()


def ended(job_id: str, attempt: int = 1, outcome: Outcome = Outcome.OK) -> FinishedJob:
    return FinishedJob(job_id, attempt, "ada", "q", "bert", 1, 1.0, 2.0, 3.0, outcome)


def test_a_submitted_job_is_pending_and_complete(spool):
    job_id = spool.submit(JOB, now=5.0)
    (job,) = spool.jobs(JobState.PENDING)
    assert (job.job_id, job.attempt, job.submit_time, job.submission) == (job_id, 1, 5.0, JOB)


def test_jobs_come_in_the_order_of_submission(spool):
    ids = [spool.submit(JOB, now=5.0) for _ in range(20)]
    assert [job.job_id for job in spool.jobs(JobState.PENDING)] == ids


def test_many_may_submit_at_once(spool, tmp_path):
    def submit() -> None:
        own = Spool(tmp_path / "home" / "spool.db")
        for _ in range(10):
            own.submit(JOB)
        own.close()

    threads = [threading.Thread(target=submit) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({job.job_id for job in spool.jobs(JobState.PENDING)}) == 40


def test_a_started_job_runs_with_its_placement(spool):
    job_id = spool.submit(JOB)
    spool.start(job_id, 1, 6.0, {"card_ids": ["gpu0"]})
    (job,) = spool.jobs(JobState.RUNNING)
    assert (job.start_time, job.placement) == (6.0, {"card_ids": ["gpu0"]})
    spool.replace_placements({job_id: {"card_ids": ["gpu0"], "joined": []}})
    assert spool.jobs(JobState.RUNNING)[0].placement == {"card_ids": ["gpu0"], "joined": []}
    assert spool.jobs(JobState.PENDING) == ()


def test_an_attempt_starts_once(spool):
    job_id = spool.submit(JOB)
    spool.start(job_id, 1, 6.0, {})
    with pytest.raises(SpoolError, match="attempt 1 is not pending any more"):
        spool.start(job_id, 1, 6.0, {})


def test_an_attempt_ends_once(spool):
    job_id = spool.submit(JOB)
    spool.start(job_id, 1, 6.0, {"a": 1})
    assert spool.end(ended(job_id), resubmit=False)
    assert not spool.end(ended(job_id), resubmit=False)
    assert spool.unfinished() == 0
    (attempt,) = spool.attempts()
    assert (attempt.finished, attempt.placement) == (ended(job_id), {"a": 1})


def test_the_gpu_time_of_earlier_attempts_is_kept(spool):
    job_id = spool.submit(JOB)
    for attempt in (1, 2):
        spool.start(job_id, attempt, 6.0, {})
        finished = FinishedJob(
            job_id, attempt, "ada", "q", "bert", 2, 1.0, 10.0, 13.0, Outcome.PREEMPTED
        )
        spool.end(finished, resubmit=True)
    (job,) = spool.jobs(JobState.PENDING)
    assert (job.attempt, job.attained_gpu_s) == (3, 12.0)


def test_a_spool_of_an_earlier_version_gets_what_it_lacks(tmp_path):
    path = tmp_path / "spool.db"
    with Spool(path) as spool:
        job_id = spool.submit(JOB)
    with sqlite3.connect(path) as connection:
        connection.execute("ALTER TABLE jobs DROP COLUMN attained_gpu_s")
    connection.close()
    for _ in range(2):
        with Spool(path) as spool:
            (job,) = spool.jobs(JobState.PENDING)
            assert (job.job_id, job.attained_gpu_s) == (job_id, 0.0)


def test_a_resubmitted_job_waits_with_the_next_attempt(spool):
    job_id = spool.submit(JOB, now=5.0)
    spool.start(job_id, 1, 6.0, {})
    spool.end(ended(job_id, outcome=Outcome.NODE_FAIL), resubmit=True)
    (job,) = spool.jobs(JobState.PENDING)
    assert (job.attempt, job.submit_time, job.start_time, job.placement) == (2, 5.0, None, None)
    assert spool.attempts_with(job_id, Outcome.NODE_FAIL) == 1
    assert spool.attempts_with(job_id, Outcome.OK) == 0


def test_attempts_are_on_their_way_until_they_are_in_the_outbox(spool):
    job_id = spool.submit(JOB)
    spool.start(job_id, 1, 6.0, {})
    spool.end(ended(job_id), resubmit=False)
    assert spool.on_their_way() == (ended(job_id),)
    assert spool.attempts_on_their_way() == 1
    spool.in_outbox(job_id, 1)
    assert spool.on_their_way() == ()
    assert len(spool.attempts()) == 1


def test_old_attempts_are_forgotten(spool, monkeypatch):
    monkeypatch.setattr("scheduler_client.jobs.spool.KEPT_ATTEMPTS", 2)
    ids = [spool.submit(JOB) for _ in range(4)]
    for job_id in ids:
        spool.start(job_id, 1, 6.0, {})
        spool.end(ended(job_id), resubmit=False)
        spool.in_outbox(job_id, 1)
    assert [a.finished.job_id for a in spool.attempts()] == ids[2:]
    assert [job.job_id for job in spool.jobs(JobState.FINISHED)] == ids[2:]
    assert KEPT_ATTEMPTS == 10_000


def test_attempts_after_a_moment_can_be_read_alone(spool):
    ids = [spool.submit(JOB) for _ in range(2)]
    numbers = [spool.newest_attempt()]
    for job_id in ids:
        spool.start(job_id, 1, 6.0, {})
        spool.end(ended(job_id), resubmit=False)
        numbers.append(spool.newest_attempt())
    assert numbers == [0, 1, 2]
    assert [a.finished.job_id for a in spool.attempts(after=1)] == ids[1:]


def test_everything_survives_a_restart(spool, tmp_path):
    first, second = spool.submit(JOB), spool.submit(JOB)
    spool.start(first, 1, 6.0, {})
    spool.note("usage", {"a": [1, 2.5]})
    again = Spool(tmp_path / "home" / "spool.db")
    assert [job.job_id for job in again.jobs(JobState.RUNNING)] == [first]
    assert [job.job_id for job in again.jobs(JobState.PENDING)] == [second]
    assert again.noted("usage") == {"a": [1, 2.5]}
    assert again.noted("other") is None
    again.close()


def test_a_note_is_replaced(spool):
    spool.note("x", 1)
    spool.note("x", 2)
    assert spool.noted("x") == 2


def test_commands_are_for_this_user_only(spool, tmp_path):
    mode = (tmp_path / "home" / "spool.db").stat().st_mode
    assert stat.S_IMODE(mode) == 0o600


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"user": ""}, "user must be 1 to 200 letters"),
        ({"queue": "a b"}, "queue must be 1 to 200 letters"),
        ({"job_key": ""}, "job_key must be 1 to 512 printable"),
        ({"job_key": "a\nb"}, "job_key must be 1 to 512 printable"),
        ({"command": ()}, "command must be a program and arguments"),
        ({"command": ("a\0b",)}, "command must be free of NUL"),
        ({"gpus": 0}, r"gpus must be a whole number in \[1, 1024\], got 0"),
        ({"gpus": True}, "gpus must be a whole number"),
        ({"gpu_mem_mib": 0}, "gpu_mem_mib must be"),
        ({"limit_s": 0.0}, "limit_s must be seconds above 0"),
        ({"limit_s": float("nan")}, "limit_s must be seconds above 0"),
        ({"priority": 10**7}, "priority must be"),
        ({"structure": ModelStructure("bert", 0)}, "structure.batch_size must be"),
        ({"structure": ModelStructure("bert", 1, depth=-1)}, "structure.depth must be"),
    ],
)
def test_what_cannot_run_is_refused(spool, fields, said):
    values = {"user": "ada", "queue": "q", "job_key": "k", "command": ("true",), **fields}
    with pytest.raises(SettingError, match=said):
        spool.submit(Submission(**values))
    assert spool.jobs(JobState.PENDING) == ()


def test_a_file_that_is_no_database_is_named(tmp_path):
    path = tmp_path / "spool.db"
    path.write_bytes(b"not a database" * 100)
    with pytest.raises(SpoolError, match="the file is not a SQLite database; move it away"):
        Spool(path)


def test_a_locked_database_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr("scheduler_client.jobs.sqlite_file.BUSY_TIMEOUT_S", 0.05)
    spool = Spool(tmp_path / "spool.db")
    other = sqlite3.connect(tmp_path / "spool.db", isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    with pytest.raises(SpoolError, match="stayed locked"):
        spool.submit(JOB)
    other.execute("ROLLBACK")
    assert spool.submit(JOB)
    other.close()
    spool.close()


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(SpoolError, match="create its folder"):
        Spool(tmp_path / "file" / "spool.db")
