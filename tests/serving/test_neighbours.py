"""Whatever stands beside the service fails: it goes on answering, or says honestly why not."""

import resource
import sqlite3
import threading
import time
from contextlib import closing, contextmanager

import pytest

from data import joblog_engine
from data.errors import JobLogError, RegistryError
from data.joblog import JobLog
from serving.champions.cache import ModelCache
from serving.metrics import Metrics
from serving.state import ServingState
from serving.web.api import Api
from serving.web.examples import EXAMPLES
from serving.web.tokens import Tokens
from tests.serving.caller import Caller

NAME = "colocast-interference"
PAIRS = {"pairs": [{"job_key": "k1", "neighbour_key": "k2", "gpu_model": "v100"}]}
FINISHED = EXAMPLES["/v1/finished"]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "joblog" / "joblog.db"


@pytest.fixture
def make(champions, tmp_path, path):
    """Make workers of one home, not started."""
    states = []

    def made(open_log=lambda: JobLog(f"sqlite:///{path}")):
        state = ServingState(champions, ModelCache(tmp_path / "cache"), open_log, Metrics())
        states.append(state)
        return state

    yield made
    for state in states:
        state.stop()


@pytest.fixture
def state(make):
    state = make()
    state.start(3600.0)
    return state


@pytest.fixture
def post(state):
    return Caller(Api(Metrics(), Tokens(), state))


def version(state):
    return state.models().models[0].version


@contextmanager
def full_disk():
    """Let no file of this process grow: what a full disk does, for one test only."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_locked_job_log_is_503_and_predictions_go_on(post, path, monkeypatch):
    monkeypatch.setattr(joblog_engine, "BUSY_TIMEOUT_S", 0.1)
    assert post("/v1/finished", FINISHED)[0] == 200
    (job,) = FINISHED["jobs"]
    with closing(sqlite3.connect(path)) as other:
        other.execute("BEGIN IMMEDIATE")
        headers = {"x-request-deadline-ms": "300"}
        status, _, answer = post("/v1/finished", {"jobs": [{**job, "attempt": 2}]}, headers=headers)
        assert status in (503, 504), answer
        assert post("/v1/slowdown", PAIRS)[0] == 200
        assert post("/v1/runtime", EXAMPLES["/v1/runtime"])[0] == 200


def test_job_log_that_cannot_be_opened_lets_the_service_start_and_is_found_later(make, path):
    is_there = threading.Event()

    def open_log():
        if not is_there.is_set():
            raise JobLogError("job log: no such folder")
        return JobLog(f"sqlite:///{path}")

    state = make(open_log)
    state.start(3600.0)
    post = Caller(Api(Metrics(), Tokens(), state))
    assert post("/v1/slowdown", PAIRS)[0] == 200
    assert post("/v1/finished", FINISHED)[0] == 503
    is_there.set()
    assert post("/v1/finished", FINISHED)[2]["accepted"] == 1


def test_job_log_that_is_no_database_any_more_is_503(make, path):
    path.parent.mkdir()
    path.write_bytes(b"no database" * 1_000)
    state = make()
    state.start(3600.0)
    post = Caller(Api(Metrics(), Tokens(), state))
    assert post("/v1/finished", FINISHED)[0] == 503
    assert post("/v1/slowdown", PAIRS)[0] == 200


def test_job_log_whose_file_is_gone_acknowledges_nothing(post, path):
    assert post("/v1/finished", FINISHED)[0] == 200
    for file in path.parent.iterdir():
        file.unlink()
    (job,) = FINISHED["jobs"]
    status, _, answer = post("/v1/finished", {"jobs": [{**job, "attempt": 2}]})
    assert status == 503
    assert "job log" in answer["error"]
    assert post("/v1/slowdown", PAIRS)[0] == 200


def test_job_log_that_is_put_back_is_written_again(post, path, tmp_path):
    assert post("/v1/finished", FINISHED)[0] == 200
    path.parent.rename(tmp_path / "elsewhere")
    (job,) = FINISHED["jobs"]
    again = {"jobs": [{**job, "attempt": 2}]}
    assert post("/v1/finished", again)[0] == 503
    (tmp_path / "elsewhere").rename(path.parent)
    assert post("/v1/finished", again)[2] == {"accepted": 1, "duplicates": 0, "sequence": 2}


def test_job_log_on_a_full_disk_takes_nothing_and_says_so(post, state):
    with full_disk():
        status, _, answer = post("/v1/finished", FINISHED)
    assert status == 503
    assert "job log" in answer["error"]
    assert post("/v1/slowdown", PAIRS)[0] == 200
    assert post("/v1/finished", FINISHED)[2] == {"accepted": 1, "duplicates": 0, "sequence": 1}


def test_cache_on_a_full_disk_refuses_the_new_version_until_there_is_room(state, champions, post):
    champions.champions[NAME] = "2"
    fetch = champions.fetch
    champions.fetch = as_a_registry_does(fetch)
    with full_disk():
        state.refresh()
    assert version(state) == "1"
    assert "too large" in state.models().models[0].refused_reason
    assert post("/v1/slowdown", PAIRS)[0] == 200
    state.refresh()
    assert version(state) == "2"


def as_a_registry_does(fetch):
    def fetching(name, number, directory):
        try:
            fetch(name, number, directory)
        except OSError as error:
            raise RegistryError(str(error)) from error

    return fetching


@pytest.mark.parametrize("jump_s", [-10 * 365 * 86_400.0, 10 * 365 * 86_400.0])
def test_clock_that_jumps_changes_no_answer_and_stops_no_swap(
    state, champions, post, monkeypatch, jump_s
):
    before = post("/v1/slowdown", PAIRS)[2]
    now = time.time()
    monkeypatch.setattr("serving.state.time", lambda: now + jump_s)
    monkeypatch.setattr(state._store, "_clock", lambda: now + jump_s)
    state.refresh()
    assert post("/v1/slowdown", PAIRS)[2] == before
    champions.champions[NAME] = "2"
    state.refresh()
    assert version(state) == "2"
    (job,) = FINISHED["jobs"]
    early = {"submit_time": 1.0, "start_time": 2.0, "finish_time": 3.0, "segments": []}
    assert post("/v1/finished", {"jobs": [job, {**job, **early, "job_id": "early"}]})[0] == 200
    state.follow_log()
    assert post("/v1/runtime", EXAMPLES["/v1/runtime"])[0] == 200


def test_registry_that_hangs_holds_no_request_up(state, champions, post):
    released = threading.Event()
    asked = threading.Event()

    def hanging():
        asked.set()
        released.wait(30.0)
        raise RegistryError("no answer")

    champions.numbers = hanging
    thread = threading.Thread(target=state.refresh)
    thread.start()
    assert asked.wait(10.0)
    assert post("/v1/slowdown", PAIRS)[0] == 200
    assert post("/v1/models", method="GET")[0] == 200
    assert state.is_alive()
    released.set()
    thread.join()
    assert version(state) == "1"


def test_registry_that_is_down_at_the_start_and_later_leaves_the_last_champion(
    make, champions, state
):
    assert version(state) == "1"
    champions.is_down = True
    restarted = make()
    restarted.start(3600.0)
    assert (version(restarted), restarted.unready()) == ("1", "")
    champions.is_down, champions.champions[NAME] = False, "2"
    restarted.refresh()
    assert version(restarted) == "2"


def test_nothing_at_all_is_honestly_not_ready(champions, tmp_path):
    champions.is_down = True

    def no_log():
        raise JobLogError("job log: gone")

    state = ServingState(champions, ModelCache(tmp_path / "empty"), no_log, Metrics())
    state.start(3600.0)
    post = Caller(Api(Metrics(), Tokens(), state))
    assert "no registry: registry: connection refused" in state.unready()
    assert post("/v1/slowdown", PAIRS)[0] == 503
    assert post("/v1/placements", EXAMPLES["/v1/placements"])[0] == 200
    assert state.is_alive()
    state.stop()
