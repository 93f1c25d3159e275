"""The routes as an ASGI application: edge checks, one answer, one error shape."""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from http import HTTPStatus
from time import perf_counter
from typing import Any

from data.errors import (
    ColocastError,
    DeadlineError,
    MediaTypeError,
    NoChampionError,
    OverloadedError,
    RequestTooLargeError,
)
from serving.metrics import Metrics
from serving.web.endpoints import ENDPOINTS, Answered, Backend, Endpoint
from serving.web.errors import HttpError, http_error, route_error
from serving.web.limits import BODY_BYTES
from serving.web.tokens import Tokens
from serving.web.wire_models import ErrorAnswer
from serving.web.wire_schema import Writer

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

JSON = b"application/json"
UNKNOWN_ROUTE = "unknown"
DEADLINE_S = 2.0
LARGEST_QUEUE = 64  # requests in hand; a scheduler asks a few at a time
_ERRORS = Writer(ErrorAnswer)


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
    in_hand : int
        Requests that were taken and are not answered yet.
    deadline_s : float
        For the routes that may wait for a database or compute for long.
    """

    metrics: Metrics
    tokens: Tokens
    backend: Backend | None = None
    in_hand: int = 0
    deadline_s: float = DEADLINE_S

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer one HTTP request."""
        if scope["type"] != "http":
            return
        start = perf_counter()
        endpoint = _BY_PATH.get(scope["path"])
        try:
            self.in_hand += 1
            status, body, headers = await self._answer(endpoint, scope, receive)
        except ClientGoneError:
            return
        finally:
            self.in_hand -= 1
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})
        route = endpoint.path if endpoint else UNKNOWN_ROUTE
        self.metrics.request(route, status, perf_counter() - start)

    async def _answer(
        self, endpoint: Endpoint | None, scope: Message, receive: Receive
    ) -> tuple[int, bytes, list[tuple[bytes, bytes]]]:
        if endpoint is None:
            paths = ", ".join(_BY_PATH)
            return _failed(route_error(HTTPStatus.NOT_FOUND, scope["path"][:60], paths))
        if scope["method"] != endpoint.method:
            refusal = HTTPStatus.METHOD_NOT_ALLOWED
            return _failed(route_error(refusal, scope["method"], endpoint.method))
        try:
            answered = await self._respond(endpoint, dict(scope["headers"]), receive)
        except ClientGoneError:
            raise
        except ColocastError as error:
            return _failed(http_error(error))
        self.metrics.estimates(endpoint.path, answered.counts)
        return HTTPStatus.OK, answered.body, _headers(answered.body)

    async def _respond(
        self, endpoint: Endpoint, headers: dict[bytes, bytes], receive: Receive
    ) -> Answered:
        if self.in_hand > LARGEST_QUEUE:
            raise OverloadedError(f"found {self.in_hand} requests, wanted at most {LARGEST_QUEUE}")
        self.tokens.check(headers.get(b"authorization"), endpoint.scope)
        if self.backend is None:
            raise NoChampionError("the service is starting; ask again in a second")
        body = b""
        if endpoint.reader is not None:
            _check_head(headers)
            body = await _body(receive)
        if not endpoint.in_thread:
            return endpoint.respond(self.backend, body)
        try:
            async with asyncio.timeout(self.deadline_s):
                return await asyncio.to_thread(endpoint.respond, self.backend, body)
        except TimeoutError as error:
            raise DeadlineError(f"no answer within {self.deadline_s:g} s; ask again") from error


def _check_head(headers: dict[bytes, bytes]) -> None:
    kind = headers.get(b"content-type", b"")
    if kind.partition(b";")[0].strip().lower() != JSON:
        raise MediaTypeError(
            ("content-type", repr(kind.decode("latin-1"))[:60], "application/json")
        )
    encoding = headers.get(b"content-encoding", b"identity")
    if encoding.strip().lower() != b"identity":
        found = repr(encoding.decode("latin-1"))[:60]
        raise MediaTypeError(("content-encoding", found, "an uncompressed body"))
    length = headers.get(b"content-length", b"0")
    if length.isdigit() and int(length) > BODY_BYTES:
        raise _too_large(f"{int(length)} bytes")


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


def _failed(error: HttpError) -> tuple[int, bytes, list[tuple[bytes, bytes]]]:
    body = _ERRORS.write(error.answer)
    extra = [(name.lower().encode(), value.encode()) for name, value in error.headers.items()]
    return error.status, body, _headers(body) + extra


def _headers(body: bytes) -> list[tuple[bytes, bytes]]:
    return [(b"content-type", JSON), (b"content-length", b"%d" % len(body))]


_BY_PATH = {endpoint.path: endpoint for endpoint in ENDPOINTS}
