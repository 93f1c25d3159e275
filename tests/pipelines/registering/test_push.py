"""What ``colocast promote`` tells the services, and what it does where none listens."""

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from data.push_signature import checked_delivery
from pipelines.registering.push import push

NAME = "colocast-interference"
SECRET = "s" * 32


@pytest.fixture
def service():
    class Handler(BaseHTTPRequestHandler):
        status, taken = 200, []

        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            Handler.taken.append((self.path, dict(self.headers), body))
            self.send_response(self.status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *arguments):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    Handler.url = f"http://127.0.0.1:{server.server_port}"
    yield Handler
    server.shutdown()
    server.server_close()


@pytest.fixture
def environ(tmp_path, service):
    (tmp_path / "secret").write_text(SECRET)
    return {
        "COLOCAST_PUSH_SECRET_FILE": str(tmp_path / "secret"),
        "COLOCAST_PUSH_URLS": service.url,
        "COLOCAST_TOKEN": "token",
    }


def test_service_gets_a_push_that_proves_itself(environ, service):
    said = []
    assert push(environ, NAME, said.append) == 1
    ((path, headers, body),) = service.taken
    assert (path, json.loads(body), said) == ("/v1/push", {"name": NAME}, [])
    lower = {name.lower(): value for name, value in headers.items()}
    assert checked_delivery([SECRET], lower, body, time.time()).delivery_id
    assert lower["authorization"] == "Bearer token"


def test_each_push_is_another_delivery(environ, service):
    push(environ, NAME, print)
    push(environ, NAME, print)
    assert len({headers["webhook-id"] for _, headers, _ in service.taken}) == 2


def test_services_that_do_not_take_it_are_named_and_the_others_get_it(environ, service):
    urls = f"http://ada:pa55@127.0.0.1:9/?t=pa55, {service.url}"
    said = []
    assert push({**environ, "COLOCAST_PUSH_URLS": urls}, NAME, said.append) == 1
    assert said == ["push to http://127.0.0.1:9/: NewConnectionError; it polls all the same"]


@pytest.mark.parametrize("status", [302, 401, 503])
def test_refusal_is_said_with_its_status(environ, service, status):
    service.status, said = status, []
    assert push(environ, NAME, said.append) == 0
    assert f"status {status}" in said[0]


def test_without_a_secret_nothing_is_pushed(service):
    assert push({"COLOCAST_PUSH_URLS": service.url}, NAME, print) == 0
    assert service.taken == []
