"""The whole battery runs on SQLite and on a real PostgreSQL."""

import re
import signal
import sqlite3
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from multiprocessing import get_context

import pytest
import sqlalchemy as sa

from data.domain import FinishedJob, ModelStructure, Outcome, Segment, Source
from data.errors import JobConflictError, JobLogError, WireError
from data.finished import finished_to_text
from data.joblog import Appended, JobLog, tail
from tests.postgres import postgresql

JOB = FinishedJob(
    job_id="j0",
    attempt=1,
    user="ada",
    queue="research",
    job_key="resnet50",
    gpus=1,
    submit_time=0.1 + 0.2,
    start_time=1001.2,
    finish_time=1060.300000000001,
    outcome=Outcome.OK,
    segments=(
        Segment(1001.2, 1030.0, "gpu0", "A100"),
        Segment(1030.0, 1060.3, "gpu0", "A100", ("bert", "ncf")),
    ),
    mem_mib=2**40 + 1,
    structure=ModelStructure("resnet", 32, activations=123_456_789_012),
    signals={"sm_active_mean": 1 / 3, "gpu_mem_peak_mib": 4096.0},
    predicted_slowdown=1.1,
    prediction_source=Source.MODEL,
    model_version="colocast-interference/3",
)


def jobs(count, start=0):
    return [replace(JOB, job_id=f"j{start + i}") for i in range(count)]


@pytest.fixture(scope="module")
def server():
    with postgresql() as running:
        yield running


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request, tmp_path):
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/joblog.db"
    return _emptied(request.getfixturevalue("server").url)


@pytest.fixture
def log(url):
    with JobLog(url) as opened:
        yield opened


def _emptied(url):
    engine = sa.create_engine(url)
    with engine.begin() as connection:
        connection.execute(sa.text("DROP TABLE IF EXISTS joblog_head, joblog_jobs"))
    engine.dispose()
    return url


def test_nothing_of_a_job_is_lost(log):
    odd = replace(JOB, job_id="ключ/ü 'x'; --\n", user="", structure=None, segments=(), signals={})
    log.append([JOB, odd])
    assert log.since(0) == [(1, JOB), (2, odd)]


def test_the_sequence_counts_on_without_a_gap(log):
    assert log.count() == 0
    assert log.append(jobs(3)) == Appended(3, 0, 3)
    assert log.append([]) == Appended(0, 0, 3)
    assert log.append(jobs(4, start=2)) == Appended(3, 1, 6)
    assert [number for number, _ in log.since(0)] == [1, 2, 3, 4, 5, 6]
    assert log.count() == 6


def test_the_same_job_again_is_a_counted_duplicate(log):
    log.append([JOB])
    assert log.append([JOB, JOB, replace(JOB, attempt=2)]) == Appended(1, 2, 2)
    assert log.append([replace(JOB, gpus=1.0)]) == Appended(0, 1, 2)


def test_another_content_under_the_same_key_is_refused_and_nothing_appended(log):
    log.append([JOB])
    with pytest.raises(JobConflictError, match=r"another content.*\('j0', 1\)") as caught:
        log.append([*jobs(2, start=1), replace(JOB, outcome=Outcome.FAILED)])
    assert caught.value.keys == (("j0", 1),)
    with pytest.raises(JobConflictError, match=r"\('j5', 1\)"):
        log.append([*jobs(1, start=5), replace(JOB, job_id="j5", user="bob")])
    assert log.count() == 1


def test_an_impossible_job_is_refused_and_nothing_appended(log):
    with pytest.raises(WireError, match=r"finish_time: found 0\.0"):
        log.append([JOB, replace(JOB, job_id="j1", finish_time=0.0)])
    assert log.count() == 0


def test_a_reader_gets_pages_and_then_nothing(log):
    log.append(jobs(25))
    assert [number for number, _ in log.since(10, limit=4)] == [11, 12, 13, 14]
    assert log.since(25) == []
    assert [job.job_id for _, job in tail(log, 20)] == [f"j{i}" for i in range(20, 25)]


def test_many_jobs_go_in_by_one_call(log):
    many = jobs(3000)
    assert log.append(many).accepted == 3000
    assert log.append(many) == Appended(0, 3000, 3000)
    assert sum(1 for _ in tail(log)) == 3000


def test_the_log_is_found_again_after_closing(url):
    with JobLog(url) as log:
        log.append([JOB])
    with JobLog(url) as log:
        assert log.append([JOB]) == Appended(0, 1, 1)


def test_each_log_has_an_identity_of_its_own(url, tmp_path):
    with JobLog(url) as log, JobLog(url) as same, JobLog(f"sqlite:///{tmp_path}/b.db") as other:
        assert log.identity() == same.identity() != other.identity()


def _append_in_process(url, start, barrier):
    barrier.wait()
    with JobLog(url) as log:
        log.append(jobs(5, start=start))


def test_several_processes_create_the_log_at_once(url):
    context = get_context("spawn")
    barrier = context.Barrier(4)
    arguments = [(url, 5 * i, barrier) for i in range(4)]
    processes = [context.Process(target=_append_in_process, args=a) for a in arguments]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0] * 4
    with JobLog(url) as log:
        assert [number for number, _ in log.since(0)] == list(range(1, 21))


def test_a_reader_that_tails_concurrent_writers_skips_nothing(url):
    seen, done = [], threading.Event()
    with JobLog(url) as log:

        def read():
            while not done.is_set() or len(seen) < log.count():
                seen.extend(log.since(seen[-1][0] if seen else 0, limit=7))

        def write(writer):
            with JobLog(url) as own:
                for i in range(30):
                    own.append(jobs(1 + i % 3, start=1000 * writer + 3 * i))

        with ThreadPoolExecutor(5) as pool:
            reader = pool.submit(read)
            list(pool.map(write, range(4)))
            done.set()
            reader.result(timeout=60)
    assert [number for number, _ in seen] == list(range(1, 241))
    assert len({job.job_id for _, job in seen}) == 240


def test_a_row_of_a_rolled_back_writer_leaves_no_gap(log, url):
    log.append([JOB])
    other = sa.create_engine(url)
    with other.connect() as connection:
        connection.execute(sa.text("UPDATE joblog_head SET sequence = 9"))
        connection.rollback()
    other.dispose()
    assert log.append(jobs(1, start=1)).sequence == 2


def test_a_newer_layout_is_refused(log, url):
    _execute(url, "UPDATE joblog_head SET version = 99")
    with pytest.raises(JobLogError, match="layout 99, this colocast writes 1; upgrade"):
        JobLog(url)


def test_a_row_of_a_newer_colocast_is_named(log, url):
    log.append([JOB])
    _execute(url, "UPDATE joblog_jobs SET document = '{\"colour\": 1}'")
    with pytest.raises(JobLogError, match="entry 1: FinishedJob: found unknown fields 'colour'"):
        log.since(0)


def test_a_row_of_an_older_colocast_with_fewer_fields_is_still_the_same_job(log, url):
    log.append([JOB])
    shorter = finished_to_text(JOB).replace('"limit_s":null,', "")
    _execute(url, "UPDATE joblog_jobs SET document = :text", text=shorter)
    assert log.append([JOB]) == Appended(0, 1, 1)


def _execute(url, statement, **parameters):
    engine = sa.create_engine(url)
    with engine.begin() as connection:
        connection.execute(sa.text(statement), parameters)
    engine.dispose()


# SQLite alone


def test_a_locked_database_is_named_and_the_append_succeeds_later(tmp_path, monkeypatch):
    monkeypatch.setattr("data.joblog_engine.BUSY_TIMEOUT_S", 0.05)
    path = tmp_path / "joblog.db"
    with JobLog(f"sqlite:///{path}") as log:
        holder = sqlite3.connect(path, isolation_level=None)
        holder.execute("BEGIN IMMEDIATE")
        with pytest.raises(JobLogError, match=r"joblog.db: the database stayed locked .* `fuser`"):
            log.append([JOB])
        assert log.since(0) == []  # readers go on meanwhile
        holder.close()
        assert log.append([JOB]).accepted == 1


def test_a_full_database_is_named_and_nothing_half_written(tmp_path):
    path = tmp_path / "joblog.db"
    with JobLog(f"sqlite:///{path}") as log:
        log.append(jobs(10))
        _limit_pages(log, 20)
        with pytest.raises(JobLogError, match=r"is full \(.* MiB free\); free some space"):
            log.append(jobs(500, start=10))
        assert log.count() == 10
        _limit_pages(log, 100_000)
        assert log.append(jobs(500, start=10)) == Appended(500, 0, 510)


def _limit_pages(log, pages):
    with log._engine.connect() as connection:
        connection.exec_driver_sql(f"PRAGMA max_page_count = {pages}")


def test_a_disk_that_refuses_a_write_is_named(tmp_path):
    # The kernel refuses to let a file of this process grow beyond the limit, as a full disk would.
    code = (
        "import resource, signal, sys; from data.joblog import JobLog; from data.errors import *\n"
        "from tests.data.test_joblog import jobs\n"
        "log = JobLog(sys.argv[1]); log.append(jobs(5))\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (120_000, 120_000))\n"
        "try:\n    log.append(jobs(1000, 5))\nexcept JobLogError as error:\n    print(error)\n"
        "print(log.count())"
    )
    url = f"sqlite:///{tmp_path}/joblog.db"
    done = subprocess.run([sys.executable, "-c", code, url], capture_output=True, check=True)
    assert re.search(rb"joblog.db: the disk .*free.*\n5\n", done.stdout), done
    with JobLog(url) as log:
        assert log.append(jobs(1005)) == Appended(1000, 5, 1005)


@pytest.mark.parametrize(
    ("url", "match"),
    [
        ("what", "found a URL that is none, wanted sqlite:///PATH or postgresql"),
        ("mysql://u:secret@h/d", r"found mysql://u:\*\*\*@h/d, wanted sqlite"),
        ("sqlite://", "wanted a file: sqlite:///PATH"),
        ("sqlite:///:memory:", "wanted a file"),
        ("sqlite:////proc/1/x/joblog.db", "no folder for it .*; create one"),
        ("sqlite:////proc/joblog.db", "the file cannot be opened; create its folder"),
    ],
)
def test_an_impossible_url_is_refused_without_its_password(url, match):
    with pytest.raises(JobLogError, match=match):
        JobLog(url)


def test_a_file_of_another_kind_is_named(tmp_path):
    (tmp_path / "joblog.db").write_bytes(b"not a database" * 100)
    with pytest.raises(JobLogError, match="not a SQLite database; move it away"):
        JobLog(f"sqlite:///{tmp_path}/joblog.db")


def test_an_append_that_was_answered_survives_sigkill(tmp_path):
    url = f"sqlite:///{tmp_path}/joblog.db"
    code = (
        "import os, signal, sys; from data.joblog import JobLog\n"
        "from tests.data.test_joblog import jobs\n"
        "JobLog(sys.argv[1]).append(jobs(7)); os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run([sys.executable, "-c", code, url], check=False)
    assert done.returncode == -signal.SIGKILL
    with JobLog(url) as log:
        assert log.append(jobs(8)) == Appended(1, 7, 8)


# PostgreSQL alone


def test_a_killed_server_loses_nothing_and_counts_nothing_twice(server):
    with JobLog(_emptied(server.url)) as log:
        assert log.append(jobs(10)).sequence == 10
        server.stop("immediate")
        with pytest.raises(JobLogError, match="start the server, create its"):
            log.append(jobs(10, start=10))
        with pytest.raises(JobLogError, match="start the server"):
            log.since(0)
        server.start()
        assert log.append(jobs(10, start=10)) == Appended(10, 0, 20)
        assert log.append(jobs(20)) == Appended(0, 20, 20)
        assert [number for number, _ in tail(log)] == list(range(1, 21))


def test_a_server_killed_again_and_again_under_writers_loses_nothing(server):
    url, stop = _emptied(server.url), threading.Event()

    def deliver(writer):
        with JobLog(url) as log:
            for job in jobs(60, start=100 * writer):
                while not _appended(log, job) and not stop.is_set():
                    stop.wait(0.02)

    with ThreadPoolExecutor(3) as pool, JobLog(url) as log:
        writers = [pool.submit(deliver, i) for i in range(3)]
        try:
            for least in (20, 60, 100):
                _wait_for(log, least)
                server.stop("immediate")
                server.start()
            for writer in writers:
                writer.result(timeout=60)
        finally:
            stop.set()
        assert [number for number, _ in tail(log)] == list(range(1, 181))
        assert len({job.job_id for _, job in tail(log)}) == 180


def _appended(log, job):
    try:
        log.append([job])
    except JobLogError:
        return False
    return True


def _wait_for(log, least):
    patience = threading.Event()
    for _ in range(1000):
        if log.count() >= least:
            return
        patience.wait(0.01)
    raise TimeoutError(f"the log never reached {least}")


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"database": "absent"}, 'database "absent" does not exist; start the server, create'),
        ({"username": "stranger"}, 'role "stranger" does not exist; start the server, create'),
        ({"port": 1}, "start the server, create its"),
    ],
)
def test_what_is_wrong_with_a_server_is_named_without_the_password(server, change, match):
    url = sa.make_url(server.url).set(password="secret", **change)
    with pytest.raises(JobLogError, match=match) as caught:
        JobLog(url.render_as_string(hide_password=False))
    assert "secret" not in str(caught.value)


def test_a_writer_that_waits_too_long_is_told(server, monkeypatch):
    monkeypatch.setattr("data.joblog_engine.BUSY_TIMEOUT_S", 0.05)
    url = _emptied(server.url)
    with JobLog(url) as log:
        holder = sa.create_engine(url)
        with holder.connect() as connection:
            connection.execute(sa.text("SELECT * FROM joblog_head FOR UPDATE"))
            with pytest.raises(JobLogError, match="another writer held the log for over"):
                log.append([JOB])
            assert log.since(0) == []
        holder.dispose()
        assert log.append([JOB]).accepted == 1


def test_a_short_postgresql_address_uses_the_same_driver(server):
    _emptied(server.url)
    with JobLog(server.url.replace("+psycopg", "")) as log:
        assert log.count() == 0


def test_a_missing_driver_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(JobLogError, match=r"pip install 'colocast\[postgres\]'"):
        JobLog("postgresql+psycopg://u@127.0.0.1:1/d")
