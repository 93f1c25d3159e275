"""A prediction service that misbehaves on request; a real process, so that it can be killed.

Run as ``python fake_service.py PORT DELIVERED``; finished jobs are appended to the file
``DELIVERED`` before they are acknowledged. ``POST /control`` with a mode as body changes what it
does from then on.
"""

import json
import re
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


class State:
    mode = "ok"
    delivered = Path()
    lock = threading.Lock()


def estimate(value: float, source: str = "model") -> dict[str, object]:
    return {
        "value": value,
        "lower": value * 0.9,
        "upper": value * 1.1,
        "model_version": "fake/1",
        "source": source,
        "in_domain": True,
    }


def placements(document: dict) -> dict[str, object]:
    job = document["job"]
    found = []
    for card in document["cards"]:
        shared = bool(card["residents"])
        found.append(
            {
                "card_id": card["card_id"],
                "job_slowdown": estimate(1.2 if shared else 1.0),
                "neighbour_slowdowns": [estimate(1.1) for _ in card["residents"]],
                "memory": estimate(job["gpu_mem_mib"] or 64),
                "fits": True,
                "cost": 0.3 if shared else 0.0,
            }
        )
    return {"placements": found[::-1], "model_version": "fake/1"}


def finished(document: dict) -> dict[str, object]:
    with State.lock:
        known = logged()
        new = [job for job in document["jobs"] if (job["job_id"], job["attempt"]) not in known]
        with State.delivered.open("a") as log:
            for job in new:
                log.write(json.dumps(job) + "\n")
    duplicates = len(document["jobs"]) - len(new)
    return {
        "accepted": len(new),
        "duplicates": duplicates,
        "sequence": len(known) + len(new),
    }


def logged() -> set[tuple[str, int]]:
    if not State.delivered.exists():
        return set()
    lines = State.delivered.read_text().splitlines()
    return {(job["job_id"], job["attempt"]) for job in map(json.loads, lines)}


def runtime(document: dict) -> dict[str, object]:
    return {"estimates": [estimate(2.0, "cluster_model") for _ in document["jobs"]]}


def models(document: dict) -> dict[str, object]:
    del document
    names = ("colocast-interference", "colocast-memory")
    loaded = [{"name": n, "version": "1", "digest": "d", "loaded_time": 1.0} for n in names]
    return {"models": loaded, "job_log_sequence": 0}


ROUTES = {
    "/v1/placements": placements,
    "/v1/runtime": runtime,
    "/v1/finished": finished,
    "/v1/models": models,
}
BODIES = {
    # mode: status and body
    "error500": (500, b'{"error": "An unexpected error has occurred"}'),
    "plain503": (503, b"Service Busy"),
    "html502": (502, b"<html><body><h1>502 Bad Gateway</h1></body></html>"),
    "no_champion": (503, b'{"error": "no champion of colocast-interference", "detail": []}'),
    "refused": (400, b'{"error": "job.gpus: found 0, wanted at least 1", "detail": []}'),
    "unauthorized": (401, b'{"error": "wanted a bearer token"}'),
    "garbage": (200, b"\x00\xff not json"),
    "html200": (200, b"<html><body>login</body></html>"),
    "empty": (200, b""),
    "list": (200, b"[1, 2, 3]"),
    "deep": (200, b"[" * 100_000),
    "redirect": (302, b""),
}
CHANGES = {
    "nan": lambda text: re.sub(r'"value": [\d.]+', '"value": NaN', text),
    "infinite": lambda text: re.sub(r'"value": [\d.]+', '"value": 1e999', text),
    "negative": lambda text: text.replace('"value": ', '"value": -'),
    "unordered": lambda text: text.replace('"lower": ', '"lower": 9'),
    "no_neighbours": lambda text: text.replace('"neighbour_slowdowns": [', '"x": ['),
    "unknown_field": lambda text: text.replace('"in_domain"', '"surprise"'),
    "other_card": lambda text: text.replace('"card_id": "', '"card_id": "other-'),
    "text_numbers": lambda text: re.sub(r'"value": [\d.]+', '"value": "1.0"', text),
}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else each answer waits 40 ms for an acknowledgement

    def do_GET(self) -> None:
        self.respond({})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path == "/control":
            State.mode = body.decode()
            self.answer(200, b"ok")
        else:
            self.respond(json.loads(body))

    def respond(self, document: dict) -> None:
        mode = State.mode
        if self.path == "/readyz":
            self.answer(200, b"")
        elif mode == "token" and self.headers["Authorization"] != "Bearer secret":
            self.answer(*BODIES["unauthorized"])
        elif mode in BODIES:
            self.answer(*BODIES[mode])
        elif mode == "busy":
            self.answer(503, b'{"error": "found 9 requests ahead"}', {"Retry-After": "7"})
        elif mode == "busy_once":
            State.mode = "ok"
            self.answer(503, b'{"error": "found 9 requests ahead"}', {"Retry-After": "1"})
        elif mode == "deadline":
            self.answer(418, f"left: {self.headers['X-Request-Deadline-Ms']}".encode())
        elif mode == "hang_up":
            self.close_connection = True
        elif mode == "slow":
            time.sleep(30)
        elif mode == "trickle_headers":
            self.trickle(b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 1000)
        else:
            text = json.dumps(ROUTES[self.path](document))
            text = CHANGES.get(mode, lambda same: same)(text)
            self.answer(200, text.encode(), trickle=mode == "trickle_body")

    def answer(
        self, status: int, body: bytes, headers: dict | None = None, *, trickle: bool = False
    ) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if trickle:
            self.trickle(body)
        else:
            self.wfile.write(body)

    def trickle(self, data: bytes) -> None:
        for byte in data:
            self.wfile.write(bytes([byte]))
            time.sleep(0.05)

    def log_message(self, *arguments: object) -> None:
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *arguments: object) -> None:
        pass  # the client hung up, as it should


if __name__ == "__main__":
    State.delivered = Path(sys.argv[2])
    server = Server(("127.0.0.1", int(sys.argv[1])), Handler)
    sys.stdout.write(f"{server.server_port}\n")
    sys.stdout.flush()
    server.serve_forever()
