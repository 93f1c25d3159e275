import numpy as np
import pytest

from data.domain import FinishedJob, JobRequest, Outcome
from data.errors import JobLogError
from data.joblog import JobLog
from features.history import RuntimeHistory
from serving.live.history_state import HistoryState

REQUEST = JobRequest("new", "ada", "q", "bert", 5_000.0)


def finished(number, user="ada"):
    start = 100.0 * number
    return FinishedJob(
        f"j{number}", 1, user, "q", "bert", 1, start, start, start + 10 + number, Outcome.OK
    )


@pytest.fixture
def log(tmp_path):
    with JobLog(f"sqlite:///{tmp_path / 'joblog.db'}") as log:
        yield log


def test_history_is_rebuilt_from_the_log(log):
    log.append([finished(number) for number in range(5)])
    state = HistoryState(lambda: log)
    assert state.catch_up() == 5
    assert state.sequence == 5
    assert np.expm1(state.features([REQUEST]).loc[0, "user_jobs"]) == pytest.approx(5)


def test_only_what_is_new_is_read(log):
    state = HistoryState(lambda: log)
    log.append([finished(0)])
    assert (state.catch_up(), state.catch_up()) == (1, 0)


def test_two_workers_that_read_at_different_times_agree(log):
    eager, late = HistoryState(lambda: log), HistoryState(lambda: log)
    for number in range(6):
        log.append([finished(number, user=f"u{number % 2}")])
        eager.catch_up()
    late.catch_up()
    one, other = eager.features([REQUEST]), late.features([REQUEST])
    np.testing.assert_array_equal(one.to_numpy(), other.to_numpy())


def test_what_one_worker_takes_is_known_to_it_at_once(log):
    state = HistoryState(lambda: log)
    appended = state.append([finished(0), finished(1)])
    assert (appended.accepted, appended.duplicates, appended.sequence) == (2, 0, 2)
    assert state.sequence == 2
    assert state.append([finished(1)]).duplicates == 1


def test_log_out_of_reach_is_tried_again(log):
    answers = [JobLogError("locked"), log]

    def open_log():
        answer = answers.pop(0)
        if isinstance(answer, JobLogError):
            raise answer
        return answer

    state = HistoryState(open_log)
    with pytest.raises(JobLogError, match="locked"):
        state.catch_up()
    assert len(state.features([REQUEST])) == 1
    state.append([finished(0)])
    assert state.sequence == 1


def test_jobs_that_are_in_the_log_are_acknowledged_though_it_cannot_be_read(log, monkeypatch):
    state = HistoryState(lambda: log)

    def broken(*arguments):
        raise JobLogError("gone")

    monkeypatch.setattr(log, "since", broken)
    assert state.append([finished(0)]).accepted == 1
    assert state.sequence == 0


def test_features_equal_those_of_the_history_itself(log):
    from data.jobs_frame import jobs_frame
    from features.requests import requests_frame

    jobs = [finished(number) for number in range(4)]
    state, history = HistoryState(lambda: log), RuntimeHistory()
    state.append(jobs)
    history.observe(jobs_frame(jobs))
    wanted = history.transform(requests_frame([REQUEST])).to_numpy()
    np.testing.assert_array_equal(state.features([REQUEST]).to_numpy(), wanted)


def test_running_jobs_of_the_user_are_seen_but_not_kept(log):
    state = HistoryState(lambda: log)
    state.append([finished(0)])
    running = [JobRequest(f"r{i}", "ada", "q", "bert", 4_000.0, elapsed_s=90.0) for i in range(3)]
    beside = state.features([REQUEST], running).loc[0]
    assert (beside["user_started"], beside["user_running"]) == (4, 0.75)
    assert state.features([REQUEST]).loc[0, "user_running"] == 0
    others = [JobRequest("r", "bob", "q", "bert", 4_000.0, elapsed_s=90.0)]
    assert state.features([REQUEST], others).loc[0, "user_running"] == 0
