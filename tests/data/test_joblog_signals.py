import pytest

from data.domain import FinishedJob, Outcome
from data.errors import JobLogError
from data.joblog import JobLog
from data.joblog_signals import SignalTable
from data.prometheus.job_signals import NO_SAMPLES, JobSignals, Sharing
from tests.postgres import postgresql


def job(job_id, attempt=1):
    return FinishedJob(job_id, attempt, "ada", "q", "ncf", 1, 0.0, 0.0, 9.0, Outcome.OK)


def found(job_id, sharing=Sharing.EXCLUSIVE, **signals):
    note = "" if signals else NO_SAMPLES
    return JobSignals(job_id, 1, sharing, 9.0, 3, signals, {"blank": 1}, note)


@pytest.fixture
def url(tmp_path):
    url = f"sqlite:///{tmp_path / 'joblog.db'}"
    with JobLog(url) as log:
        log.append([job("1"), job("2"), job("2", 2), job("3")])
    return url


def pending(table, **options):
    return [(job.job_id, job.attempt) for _, job in table.pending(**options)]


def test_a_job_is_pending_until_something_is_kept_of_it(url):
    with SignalTable(url) as table:
        assert pending(table) == [("1", 1), ("2", 1), ("2", 2), ("3", 1)]
        table.put([found("2", gpu_util_mean=0.5)])
        assert pending(table) == [("1", 1), ("2", 2), ("3", 1)]
        assert pending(table, after=1, limit=1) == [("2", 2)]


def test_what_is_kept_comes_back_as_it_was(url):
    own, light = found("1", gpu_util_mean=0.1 + 0.2), found("1", Sharing.LIGHT, gpu_util_mean=0.7)
    with SignalTable(url) as table:
        table.put([own, light])
    with SignalTable(url) as table:
        assert table.all() == [own, light]
        assert table.all(Sharing.EXCLUSIVE) == [own]


def test_what_is_found_later_takes_the_place_of_what_was_known(url):
    with SignalTable(url) as table:
        table.put([found("1"), found("1", Sharing.LIGHT, gpu_util_mean=0.7)])
        table.put([found("1", gpu_util_mean=0.5)])
        assert table.all() == [found("1", gpu_util_mean=0.5)]
        table.put([])
        assert len(table.all()) == 1


def test_attempts_of_which_nothing_was_found_can_be_looked_up_again(url):
    with SignalTable(url) as table:
        table.put([found("1"), found("2", gpu_util_mean=0.5)])
        table.put([found("3"), found("3", Sharing.LIGHT, gpu_util_mean=0.7)])
        assert table.forget_empty() == 1
        assert ("1", 1) in pending(table)
        assert ("3", 1) not in pending(table)


def test_the_log_itself_does_not_change(url):
    with JobLog(url) as log:
        before = log.since(0)
        with SignalTable(url) as table:
            table.put([found("1", gpu_util_mean=0.5)])
        assert log.since(0) == before


def test_a_table_that_cannot_be_opened_says_so(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(JobLogError, match="file"):
        SignalTable(f"sqlite:///{tmp_path / 'file' / 'joblog.db'}")


def test_on_postgresql_too():
    with postgresql() as server:
        with JobLog(server.url) as log:
            log.append([job("1"), job("2")])
        with SignalTable(server.url) as table, SignalTable(server.url) as other:
            table.put([found("1", gpu_util_mean=0.5)])
            assert pending(other) == [("2", 1)]
