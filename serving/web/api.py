"""The routes as an ASGI application: edge checks, one answer, one error shape."""

from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from time import perf_counter
from typing import Any

from data.errors import (
    ColocastError,
    MediaTypeError,
    NoChampionError,
    OverloadedError,
    RequestTooLargeError,
)
from serving.metrics import Metrics
from serving.web.admission import LONGEST_WAIT_S, Admission
from serving.web.bulkhead import Bulkhead
from serving.web.deadline import patience_s
from serving.web.endpoints import ENDPOINTS, JSON, Answered, Backend, Counts, Endpoint
from serving.web.errors import HttpError, http_error, route_error
from serving.web.limits import BODY_BYTES
from serving.web.pushes import Pushes
from serving.web.slow_bodies import SlowBodies
from serving.web.tokens import SCOPES, Tokens
from serving.web.wire_models import ErrorAnswer
from serving.web.wire_schema import Writer

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Reply = tuple[int, bytes, list[tuple[bytes, bytes]], Counts]
"""Status, body, headers, and the estimates in the body."""

UNKNOWN_ROUTE = "unknown"
DEADLINE_S = 2.0
LARGEST_QUEUE = 64  # requests in hand; a scheduler asks a few at a time
_ERRORS = Writer(ErrorAnswer)


def _bulkheads() -> dict[str, Bulkhead]:
    return {scope: Bulkhead(scope) for scope in SCOPES}


class ClientGoneError(ColocastError, ConnectionError):
    """The client hung up before its body was here; nobody is left to answer."""


@dataclass(slots=True)
class Api:
    """The application; answers 503 until a backend is attached.

    Attributes
    ----------
    metrics : Metrics
    tokens : Tokens
    backend : Backend, optional
    pushes : Pushes
    in_hand : int
        Requests that were taken and are not answered yet.
    deadline_s : float
        The longest that any request may take; a caller may ask for less.
    longest_wait_s : float
        The longest that a request may wait for its turn on the event loop.
    """

    metrics: Metrics
    tokens: Tokens
    backend: Backend | None = None
    pushes: Pushes = field(default_factory=Pushes)
    in_hand: int = 0
    deadline_s: float = DEADLINE_S
    longest_wait_s: float = LONGEST_WAIT_S
    admission: Admission = field(default_factory=Admission)
    slow_bodies: SlowBodies = field(default_factory=SlowBodies)
    bulkheads: dict[str, Bulkhead] = field(default_factory=_bulkheads)

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer one HTTP request."""
        if scope["type"] != "http":
            return
        start_s = perf_counter()
        endpoint = _BY_PATH.get(scope["path"])
        try:
            self.in_hand += 1
            status, body, headers, counts = await self._answer(endpoint, scope, receive, start_s)
        except ClientGoneError:
            return
        finally:
            self.in_hand -= 1
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})
        route = endpoint.path if endpoint else UNKNOWN_ROUTE
        self.metrics.request(route, status, perf_counter() - start_s, counts)

    async def _answer(
        self, endpoint: Endpoint | None, scope: Message, receive: Receive, start_s: float
    ) -> Reply:
        if endpoint is None:
            paths = ", ".join(_BY_PATH)
            return _failed(route_error(HTTPStatus.NOT_FOUND, scope["path"][:60], paths))
        if scope["method"] != endpoint.method:
            refusal = HTTPStatus.METHOD_NOT_ALLOWED
            return _failed(route_error(refusal, scope["method"], endpoint.method))
        try:
            answered = await self._respond(endpoint, dict(scope["headers"]), receive, start_s)
        except ClientGoneError:
            raise
        except ColocastError as error:
            return _failed(http_error(error))
        headers = _headers(answered.body, answered.media)
        return HTTPStatus.OK, answered.body, headers, answered.counts

    async def _respond(
        self, endpoint: Endpoint, headers: dict[bytes, bytes], receive: Receive, start_s: float
    ) -> Answered:
        if self.in_hand > LARGEST_QUEUE:
            raise OverloadedError(f"found {self.in_hand} requests, wanted at most {LARGEST_QUEUE}")
        self.tokens.check(headers.get(b"authorization"), endpoint.scope)
        if self.backend is None:
            raise NoChampionError("the service is starting; ask again in a second")
        deadline_s = start_s + patience_s(headers, self.deadline_s)
        body = b""
        if endpoint.reader is not None:
            endpoint = _check_head(headers, endpoint)
            body = await self.slow_bodies.read(_body(receive), start_s)
        if endpoint.in_thread:
            respond = partial(endpoint.respond, self.backend, body)
            if endpoint.is_signed:
                respond = partial(self._respond_signed, respond, headers, body)
            within_s = deadline_s - perf_counter()
            return await self.bulkheads[endpoint.scope].call(respond, within_s)
        return await self._in_turn(endpoint, self.backend, body, deadline_s)

    def _respond_signed(
        self, respond: Callable[[], Answered], headers: dict[bytes, bytes], body: bytes
    ) -> Answered:
        self.pushes.take(headers, body)
        return respond()

    async def _in_turn(
        self, endpoint: Endpoint, backend: Backend, body: bytes, deadline_s: float
    ) -> Answered:
        admission, path, size = self.admission, endpoint.path, len(body)
        start_s = perf_counter()
        if not admission.may_go_now():
            await admission.turn(path, size, deadline_s, self.longest_wait_s)
            start_s = perf_counter()
        try:
            return endpoint.respond(backend, body)
        finally:
            admission.done(path, size, start_s)


def _check_head(headers: dict[bytes, bytes], endpoint: Endpoint) -> Endpoint:
    """Return the endpoint for the body's media type; raise if the body cannot be read."""
    kind = headers.get(b"content-type", b"")
    media = kind.partition(b";")[0].strip().lower()
    form = endpoint.binary if endpoint.binary and media == endpoint.binary.media else endpoint
    if media != form.media:
        wanted = JSON.decode() + (
            f" or {endpoint.binary.media.decode()}" if endpoint.binary else ""
        )
        raise MediaTypeError(("content-type", repr(kind.decode("latin-1"))[:60], wanted))
    encoding = headers.get(b"content-encoding", b"identity")
    if encoding.strip().lower() != b"identity":
        found = repr(encoding.decode("latin-1"))[:60]
        raise MediaTypeError(("content-encoding", found, "an uncompressed body"))
    length = headers.get(b"content-length", b"0")
    if length.isdigit() and int(length) > BODY_BYTES:
        raise _too_large(f"{int(length)} bytes")
    return form


async def _body(receive: Receive) -> bytes:
    """Return the whole body, giving up as soon as it is too large."""
    parts, size, has_more = [], 0, True
    while has_more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGoneError("the client hung up")
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        has_more = message.get("more_body", False)
        if size > BODY_BYTES:
            raise _too_large(f"more than {BODY_BYTES} bytes")
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _too_large(found: str) -> RequestTooLargeError:
    return RequestTooLargeError(("", found, f"at most {BODY_BYTES} bytes; send fewer rows"))


def _failed(error: HttpError) -> Reply:
    body = _ERRORS.write(error.answer)
    extra = [(name.lower().encode(), value.encode()) for name, value in error.headers.items()]
    return error.status, body, _headers(body) + extra, {}


def _headers(body: bytes, media: bytes = JSON) -> list[tuple[bytes, bytes]]:
    return [(b"content-type", media), (b"content-length", b"%d" % len(body))]


_BY_PATH = {endpoint.path: endpoint for endpoint in ENDPOINTS}
