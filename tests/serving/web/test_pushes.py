"""The push hook through the application: who may push, and what a push does."""

import json
import logging
import threading
import time

import pytest

from data.errors import SettingError
from data.joblog import JobLog
from data.push_signature import Delivery, signed_headers
from serving.champions.cache import ModelCache
from serving.champions.push_book import PushBook
from serving.metrics import Metrics
from serving.state import ServingState
from serving.web.api import Api
from serving.web.pushes import Pushes, pushes_from_file
from serving.web.tokens import Tokens, tokens_from_file
from tests.serving.caller import Caller

NAME = "colocast-interference"
SECRET = "a-secret-that-nobody-says"
TOKEN = "t" * 32
BODY = json.dumps({"name": NAME}).encode()


@pytest.fixture
def worker(champions, tmp_path):
    """Make workers of one home that ask the registry once an hour."""
    states = []

    def make():
        log = JobLog(f"sqlite:///{tmp_path / 'joblog.db'}")
        cache, book = ModelCache(tmp_path / "cache"), PushBook(tmp_path / "pushes.json")
        state = ServingState(champions, cache, lambda: log, Metrics(), book)
        state.start(3600.0)
        states.append(state)
        return state, Api(Metrics(), Tokens(), state, Pushes((SECRET,), book))

    yield make
    for state in states:
        state.stop()


def signed(delivery_id="d-1", sent_time=None, secret=SECRET, body=BODY):
    sent_time = int(time.time()) if sent_time is None else sent_time
    return signed_headers(secret, Delivery(delivery_id, sent_time), body)


def version(state):
    return state.models().models[0].version


def until(condition):
    deadline = time.monotonic() + 30.0
    while not condition():
        assert time.monotonic() < deadline
        threading.Event().wait(0.02)


def test_push_lets_all_workers_follow_the_alias_at_once(worker, champions):
    (one, api), (other, _) = worker(), worker()
    champions.champions[NAME] = "2"
    status, _, answer = Caller(api)("/v1/push", BODY, headers=signed())
    assert status == 200
    assert answer["models"][0]["name"] == NAME
    until(lambda: version(one) == version(other) == "2")


def test_push_is_taken_once(worker):
    _, api = worker()
    post = Caller(api)
    assert post("/v1/push", BODY, headers=signed())[0] == 200
    status, _, answer = post("/v1/push", BODY, headers=signed())
    assert (status, answer["error"]) == (401, "found a push that was seen before, wanted a new one")
    assert post("/v1/push", BODY, headers=signed("d-2"))[0] == 200


@pytest.mark.parametrize(
    "headers",
    [
        {},
        signed(secret="another secret of its length"),
        signed(sent_time=1_000),
        signed(body=b"{}"),
        {**signed(), "webhook-id": "d-9"},
    ],
)
def test_push_without_a_good_signature_is_401_and_does_nothing(worker, champions, headers):
    state, api = worker()
    champions.champions[NAME] = "2"
    assert Caller(api)("/v1/push", BODY, headers=headers)[0] == 401
    state.look_for_push()
    assert version(state) == "1"


def test_signed_push_with_a_strange_body_is_400(worker):
    _, api = worker()
    body = b'{"name": 7}'
    assert Caller(api)("/v1/push", body, headers=signed(body=body))[0] == 400


def test_push_wants_the_scope_admin_too_where_there_are_tokens(worker, tmp_path):
    state, api = worker()
    (tmp_path / "tokens").write_text(f"{TOKEN} admin\n{'p' * 32} predict report\n")
    post = Caller(Api(Metrics(), tokens_from_file(tmp_path / "tokens"), state, api.pushes))
    assert post("/v1/push", BODY, headers=signed())[0] == 401
    bearer = {"authorization": f"Bearer {'p' * 32}"}
    assert post("/v1/push", BODY, headers={**signed(), **bearer})[0] == 401
    bearer = {"authorization": f"Bearer {TOKEN}"}
    assert post("/v1/push", BODY, headers={**signed(), **bearer})[0] == 200


def test_without_a_secret_no_push_is_taken(worker):
    state, _ = worker()
    status, _, answer = Caller(Api(Metrics(), Tokens(), state))(
        "/v1/push", BODY, headers=signed(secret="")
    )
    assert status == 401
    assert "--push-secret-file" in answer["error"]


def test_clock_that_jumps_refuses_pushes_and_the_poll_goes_on(worker, champions):
    state, api = worker()
    jumped = Pushes((SECRET,), api.pushes.book, lambda: time.time() + 86_400.0)
    champions.champions[NAME] = "2"
    post = Caller(Api(Metrics(), Tokens(), state, jumped))
    assert post("/v1/push", BODY, headers=signed())[0] == 401
    state.refresh()
    assert version(state) == "2"


def test_neither_secret_nor_token_is_ever_said(worker, tmp_path, caplog):
    caplog.set_level(logging.DEBUG)
    state, api = worker()
    (tmp_path / "tokens").write_text(f"{TOKEN} predict\n")
    post = Caller(Api(Metrics(), tokens_from_file(tmp_path / "tokens"), state, api.pushes))
    said = []
    for path, token in (("/v1/push", TOKEN), ("/v1/push", TOKEN[1:]), ("/v1/slowdown", TOKEN[1:])):
        headers = {**signed(), "authorization": f"Bearer {token}"}
        said.append(repr(post(path, BODY, headers=headers)))
    said.append(repr(Caller(api)("/v1/push", BODY, headers=signed())))
    text = "".join(said) + caplog.text + api.metrics.page().decode()
    assert TOKEN[1:] not in text
    assert SECRET not in text
    assert signed()["webhook-signature"][3:] not in text


def test_secrets_come_from_a_file(tmp_path):
    assert pushes_from_file(None, tmp_path / "book") == Pushes()
    (tmp_path / "secrets").write_text(SECRET)
    assert pushes_from_file(tmp_path / "secrets", tmp_path / "book").secrets == (SECRET,)
    with pytest.raises(SettingError, match="No such file"):
        pushes_from_file(tmp_path / "none", tmp_path / "book")
