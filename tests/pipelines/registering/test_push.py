"""What ``colocast promote`` tells the services, and what it does where none listens."""

import json
import time

import pytest

from data.push_signature import checked_delivery
from pipelines.registering.push import push
from tests.pipelines.conftest import SECRET

NAME = "colocast-interference"


def test_service_gets_a_push_that_proves_itself(push_environ, push_receiver):
    said = []
    assert push(push_environ, NAME, said.append) == 1
    ((path, headers, body),) = push_receiver.taken
    assert (path, json.loads(body), said) == ("/v1/push", {"name": NAME}, [])
    lower = {name.lower(): value for name, value in headers.items()}
    assert checked_delivery([SECRET], lower, body, time.time()).delivery_id
    assert lower["authorization"] == "Bearer token"


def test_each_push_is_another_delivery(push_environ, push_receiver):
    push(push_environ, NAME, print)
    push(push_environ, NAME, print)
    assert len({headers["webhook-id"] for _, headers, _ in push_receiver.taken}) == 2


def test_services_that_do_not_take_it_are_named_and_the_others_get_it(push_environ, push_receiver):
    urls = f"http://ada:pa55@127.0.0.1:9/?t=pa55, {push_receiver.url}"
    said = []
    assert push({**push_environ, "COLOCAST_PUSH_URLS": urls}, NAME, said.append) == 1
    assert said == ["push to http://127.0.0.1:9/: NewConnectionError; it polls all the same"]


@pytest.mark.parametrize("status", [302, 401, 503])
def test_refusal_is_said_with_its_status(push_environ, push_receiver, status):
    push_receiver.status, said = status, []
    assert push(push_environ, NAME, said.append) == 0
    assert f"status {status}" in said[0]


def test_without_a_secret_nothing_is_pushed(push_receiver):
    assert push({"COLOCAST_PUSH_URLS": push_receiver.url}, NAME, print) == 0
    assert push_receiver.taken == []
