"""What the scheduler sees and does, over HTTP on loopback: JSON and Prometheus text."""

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from data.errors import ServiceStartError
from data.wire import Json
from scheduler_client.explaining.explainer import Explainer
from scheduler_client.explaining.routes import QUESTIONS, WHATIF, Reply, asked, imagined
from scheduler_client.loop import Cycle
from scheduler_client.policy.decisions import Level
from scheduler_client.policy.explain import explanation
from scheduler_client.policy.ledger import Ledger
from scheduler_client.policy.view import CardState

PREFIX = "colocast_scheduler_"
_KINDS = {"/status": "application/json", "/metrics": "text/plain; version=0.0.4"}

Observe = Callable[[Cycle], None]


@dataclass(slots=True)
class _Newest:
    cycle: Cycle | None = None
    cycles: int = 0


@contextmanager
def status_server(
    port: int | None,
    more_metrics: Callable[[], str] = lambda: "",
    explainer: Explainer | None = None,
) -> Iterator[Observe]:
    """Serve the newest cycle on ``/status`` and ``/metrics``; yield what takes in each cycle.

    With an explainer, also ``GET /why/JOB``, ``GET /explain/JOB`` and ``POST /whatif``.

    Parameters
    ----------
    port : int, optional
        On loopback; None serves nothing.
    more_metrics : callable
        Prometheus text to add to ``/metrics``, made at each request.
    explainer : Explainer, optional
        Shown every cycle too.

    Raises
    ------
    ServiceStartError
        If the port is taken.
    """
    newest = _Newest()

    def observe(cycle: Cycle) -> None:
        newest.cycle = cycle
        newest.cycles += 1
        if explainer is not None:
            explainer.observe(cycle)

    if port is None:
        yield observe
        return
    server = _server(port, newest, more_metrics, explainer)
    thread = threading.Thread(target=server.serve_forever, name="status", daemon=True)
    thread.start()
    try:
        yield observe
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def status_document(cycle: Cycle) -> Json:
    """Return a cycle as JSON: cards with their jobs, why others wait, queues, level."""
    held = Ledger(cycle.view).held_by_queue
    return {
        "time": cycle.view.now,
        "level": cycle.level,
        "cards": [_card(card) for card in cycle.cards],
        "waiting": [
            {"job_id": waiting.job_id, "reason": waiting.reason, "why": explanation(waiting)}
            for waiting in cycle.decision.waiting
        ],
        "queues": [
            {
                "name": queue.name,
                "nominal_quota_gpus": queue.nominal_quota_gpus,
                "held_gpus": held.get(queue.name, 0.0),
                "cohort": queue.cohort,
            }
            for queue in cycle.view.queues
        ],
    }


def metrics_text(cycle: Cycle, cycles: int) -> str:
    """Return a cycle as Prometheus text."""
    reasons = Counter(str(waiting.reason) for waiting in cycle.decision.waiting)
    held = Ledger(cycle.view).held_by_queue
    samples = {
        "cycles_total": [("", float(cycles))],
        "running_jobs": [("", float(cycle.running))],
        "waiting_jobs": [(_label("reason", r), float(n)) for r, n in sorted(reasons.items())],
        "card_jobs": [(_label("card", c.card_id), float(len(c.residents))) for c in cycle.cards],
        "queue_held_gpus": [(_label("queue", q), gpus) for q, gpus in sorted(held.items())],
        "level": [(_label("level", x), float(x is cycle.level)) for x in Level],
    }
    lines = []
    for name, found in samples.items():
        kind = "counter" if name.endswith("_total") else "gauge"
        lines.append(f"# TYPE {PREFIX}{name} {kind}")
        lines += [f"{PREFIX}{name}{label} {value:g}" for label, value in found]
    return "\n".join(lines) + "\n"


def _card(card: CardState) -> Json:
    return {
        "card_id": card.card_id,
        "gpu_model": card.gpu_model,
        "total_mem_mib": card.total_mem_mib,
        "free_mem_mib": card.free_mem_mib,
        "is_healthy": card.is_healthy,
        "jobs": [{"job_id": r.job_id, "job_key": r.job_key} for r in card.residents],
    }


def _label(name: str, value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'{{{name}="{escaped}"}}'


def _page(path: str, newest: _Newest, more_metrics: Callable[[], str]) -> Reply:
    cycle = newest.cycle
    if path not in _KINDS:
        return Reply(HTTPStatus.NOT_FOUND, "text/plain", f"wanted {', '.join(_KINDS)}\n")
    if cycle is None:
        return Reply(HTTPStatus.SERVICE_UNAVAILABLE, "text/plain", "no cycle yet\n")
    if path == "/status":
        return Reply(HTTPStatus.OK, _KINDS[path], json.dumps(status_document(cycle)))
    text = metrics_text(cycle, newest.cycles) + more_metrics()
    return Reply(HTTPStatus.OK, _KINDS[path], text)


def _server(
    port: int,
    newest: _Newest,
    more_metrics: Callable[[], str],
    explainer: Explainer | None,
) -> ThreadingHTTPServer:
    class Handler(BaseHTTPRequestHandler):
        """Answers from the newest cycle; POST only asks, and changes nothing either."""

        def do_GET(self) -> None:
            if explainer is not None and self.path.startswith(QUESTIONS):
                self._reply(asked(explainer, self.path))
            else:
                self._reply(_page(self.path, newest, more_metrics))

        def do_POST(self) -> None:
            if explainer is None or self.path != WHATIF:
                self._reply(Reply(HTTPStatus.NOT_FOUND, "text/plain", f"wanted POST {WHATIF}\n"))
            else:
                length = self.headers.get("Content-Length", "")
                self._reply(imagined(explainer, length, self.rfile))

        def _reply(self, reply: Reply) -> None:
            body = reply.text.encode()
            self.send_response(reply.status)
            self.send_header("Content-Type", reply.kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
            """Log nothing: the log is for decisions."""

    try:
        server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    except OSError as error:
        raise ServiceStartError(
            f"port {port} for the scheduler's status is taken ({error.strerror}); choose another"
            " with COLOCAST_SCHEDULER_PORT, or --no-status"
        ) from error
    server.daemon_threads = True
    return server
