"""Asks the prediction service; every answer is whole, plausible and in time, or an error."""

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from http import HTTPStatus
from typing import TypeVar

from data.domain import Card, Estimate, FinishedJob, JobRequest, Placement, ServedModel
from data.errors import (
    PredictionRefusedError,
    PredictionUnavailableError,
)
from data.finished import finished_to_json
from data.wire import Json, to_json
from scheduler_client.forecast.answers import (
    FinishedReceipt,
    error_text,
    models_from,
    placements_from,
    receipt_from,
    runtimes_from,
)
from scheduler_client.forecast.breaker import BreakerRules, Circuit, CircuitBreaker
from scheduler_client.forecast.exchange import Exchange

T = TypeVar("T")

PLACEMENTS, RUNTIME, FINISHED = "/v1/placements", "/v1/runtime", "/v1/finished"
MODELS, READY = "/v1/models", "/readyz"
MOST_CARDS, MOST_JOBS, MOST_FINISHED = 10_000, 2_000, 1_000
ATTEMPTS = 3
BACKOFF_S = 0.05
_SERVER_FAULTS = (
    # Refusals that say nothing of the request itself.
    HTTPStatus.UNAUTHORIZED,
    HTTPStatus.FORBIDDEN,
    HTTPStatus.REQUEST_TIMEOUT,
    HTTPStatus.TOO_MANY_REQUESTS,
)


@dataclass(frozen=True, slots=True)
class _Question:
    method: str
    path: str
    body: bytes | None = None


class PredictorClient:
    """The prediction service as typed functions.

    Parameters
    ----------
    url : str
        Where the service listens.
    deadline_s : float
        For one call with all its retries (> 0).
    token : str, optional
        Sent as bearer token.
    breaker : BreakerRules
        Each endpoint has a circuit of its own.
    clock : callable
        Returns monotonic seconds, for the circuits.

    Raises
    ------
    PredictionError
        From every method, as `PredictionTimeoutError` (no whole answer within the deadline),
        `PredictionUnavailableError` (no connection, 5xx, or left alone after failures),
        `PredictionRefusedError` (4xx: this request is at fault) or `PredictionInvalidError` (an
        answer that cannot be true).

    Notes
    -----
    All requests are idempotent, finished jobs by (job id, attempt), so that a connection that
    breaks is tried again at once on a fresh one, and a 5xx after a short pause. Each request says
    how long its answer is still of use, so that a service that is too busy refuses it at once; one
    that names a moment to come back (``Retry-After``) is left alone until then.
    """

    def __init__(
        self,
        url: str,
        deadline_s: float = 1.0,
        token: str | None = None,
        *,
        breaker: BreakerRules | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._deadline_s, self._rules, self._clock = deadline_s, breaker or BreakerRules(), clock
        headers = {"Accept": "application/json", "User-Agent": "colocast-scheduler"}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        self._exchange = Exchange(url, headers)
        self._breakers: dict[str, CircuitBreaker] = {}
        self._newest_cards: Sequence[Card] = ()
        self._newest_cards_json = b"[]"

    def placements(
        self, job: JobRequest, cards: Sequence[Card], within_s: float | None = None
    ) -> tuple[Placement, ...]:
        """Return the predicted consequences of placing `job` on each of `cards`, in their order.

        Parameters
        ----------
        cards : sequence of Card, of length 1 to 10,000
        within_s : float, optional
            A shorter deadline than the client's.
        """
        body = b'{"job":%b,"cards":%b}' % (_json(_job_document(job)), self._cards_json(cards))
        question = _Question("POST", PLACEMENTS, body)
        return self._answer(question, lambda answer: placements_from(answer, cards), within_s)

    def runtimes(
        self,
        jobs: Sequence[JobRequest],
        running: Sequence[JobRequest] = (),
        within_s: float | None = None,
    ) -> tuple[Estimate, ...]:
        """Return the predicted whole runtime (s) of each of 1 to 2,000 `jobs`, in their order.

        Parameters
        ----------
        running : sequence of JobRequest, of length 0 to 10,000
            Jobs that run now, those of `jobs` among them or not; with ``elapsed_s``.
        within_s : float, optional
            As for `placements`.
        """
        body = b'{"jobs":%b,"running":%b}' % (_jobs_json(jobs), _jobs_json(running))
        question = _Question("POST", RUNTIME, body)
        return self._answer(question, lambda answer: runtimes_from(answer, len(jobs)), within_s)

    def finished(
        self, jobs: Sequence[FinishedJob], within_s: float | None = None
    ) -> FinishedReceipt:
        """Report 1 to 1,000 finished jobs; return once they are in the job log."""
        body = _json({"jobs": [finished_to_json(job) for job in jobs]})
        return self._answer(_Question("POST", FINISHED, body), receipt_from, within_s)

    def models(self, within_s: float | None = None) -> tuple[ServedModel, ...]:
        """Return which models the service answers with."""
        return self._answer(_Question("GET", MODELS), models_from, within_s)

    def ready(self, within_s: float | None = None) -> str:
        """Return what the service says when it is ready to predict."""
        return self._answer(_Question("GET", READY), error_text, within_s)

    def circuit(self, path: str) -> Circuit:
        """Return the state of an endpoint's circuit."""
        return self._breaker(path).circuit

    def close(self) -> None:
        """Close idle connections."""
        self._exchange.close()

    def _cards_json(self, cards: Sequence[Card]) -> bytes:
        """Return cards as JSON; the same cards are asked about for every kind of job."""
        if cards is not self._newest_cards:
            self._newest_cards = cards
            self._newest_cards_json = _json([_card_document(card) for card in cards])
        return self._newest_cards_json

    def _answer(
        self, question: _Question, parsed: Callable[[bytes], T], within_s: float | None
    ) -> T:
        breaker = self._breaker(question.path)
        if not breaker.allows():
            rest = f"left alone for {breaker.remaining_s:.1f} s after failures"
            raise PredictionUnavailableError(f"{question.path}: {rest}")
        limit_s = self._deadline_s if within_s is None else min(self._deadline_s, within_s)
        deadline_s = time.monotonic() + limit_s
        try:
            answer = parsed(self._sent(question, deadline_s))
        except PredictionRefusedError:
            breaker.succeeded()
            raise
        except PredictionUnavailableError as error:
            breaker.failed(error.retry_after_s or 0.0)
            raise
        except BaseException:
            breaker.failed()
            raise
        breaker.succeeded()
        return answer

    def _sent(self, question: _Question, deadline_s: float) -> bytes:
        """Return the body of a good answer, trying again while that can help and there is time."""
        for attempt in range(ATTEMPTS):
            try:
                return self._sent_once(question, deadline_s)
            except PredictionUnavailableError as error:
                pause_s = BACKOFF_S * 2**attempt if attempt else 0.0
                pause_s = max(pause_s, error.retry_after_s or 0.0)
                left_s = deadline_s - time.monotonic() - pause_s
                if attempt == ATTEMPTS - 1 or left_s <= 0:
                    raise
                time.sleep(pause_s)
        raise PredictionUnavailableError(f"{question.path}: no attempt was left")

    def _sent_once(self, question: _Question, deadline_s: float) -> bytes:
        answer = self._exchange.send(question.method, question.path, question.body, deadline_s)
        status = answer.status
        if status == HTTPStatus.OK:
            return answer.body
        said = f"{question.path}: HTTP {status}: {error_text(answer.body)}"
        at_fault = HTTPStatus.BAD_REQUEST <= status < HTTPStatus.INTERNAL_SERVER_ERROR
        if at_fault and status not in _SERVER_FAULTS:
            raise PredictionRefusedError(said, status)
        raise PredictionUnavailableError(said, answer.retry_after_s)

    def _breaker(self, path: str) -> CircuitBreaker:
        return self._breakers.setdefault(path, CircuitBreaker(self._rules, self._clock))


def _json(document: object) -> bytes:
    return _ENCODER.encode(document).encode()


def _jobs_json(jobs: Sequence[JobRequest]) -> bytes:
    """Return jobs as JSON; one by one, as all at once 3,000 take 5.4 MB meanwhile, so 2.1."""
    return f"[{','.join([_ENCODER.encode(_job_document(job)) for job in jobs])}]".encode()


def _card_document(card: Card) -> Json:
    """Return a card as `to_json` does, without looking at it: the scheduler made it itself."""
    return {
        "card_id": card.card_id,
        "gpu_model": card.gpu_model,
        "free_mem_mib": card.free_mem_mib,
        "residents": [{"job_id": r.job_id, "job_key": r.job_key} for r in card.residents],
    }


def _job_document(job: JobRequest) -> Json:
    """Return a job as `to_json` does, without looking at it: it was checked when submitted."""
    structure = None if job.structure is None else to_json(job.structure)
    plain = {name: getattr(job, name) for name in _PLAIN_FIELDS}
    return {**plain, "structure": structure}


_ENCODER = json.JSONEncoder(allow_nan=False, separators=(",", ":"))
_PLAIN_FIELDS = tuple(f.name for f in fields(JobRequest) if f.name != "structure")
