"""Which HTTP status each deliberate error becomes; decided here and nowhere else."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus

from data.errors import (
    ColocastError,
    DeadlineError,
    JobConflictError,
    JobLogError,
    MediaTypeError,
    NoChampionError,
    OverloadedError,
    RequestError,
    RequestTooLargeError,
    SlowRequestError,
    UnauthorizedError,
    UnknownProfileError,
    WireError,
)
from serving.web.wire_models import ErrorAnswer, Fault

RETRY_AFTER_S = 1

STATUSES: tuple[tuple[type[ColocastError], HTTPStatus], ...] = (
    # The first that fits: a subclass stands before its base.
    (RequestTooLargeError, HTTPStatus.REQUEST_ENTITY_TOO_LARGE),
    (MediaTypeError, HTTPStatus.UNSUPPORTED_MEDIA_TYPE),
    (RequestError, HTTPStatus.BAD_REQUEST),
    (WireError, HTTPStatus.BAD_REQUEST),
    (UnauthorizedError, HTTPStatus.UNAUTHORIZED),
    (UnknownProfileError, HTTPStatus.NOT_FOUND),
    (JobConflictError, HTTPStatus.CONFLICT),
    (OverloadedError, HTTPStatus.SERVICE_UNAVAILABLE),
    (NoChampionError, HTTPStatus.SERVICE_UNAVAILABLE),
    (JobLogError, HTTPStatus.SERVICE_UNAVAILABLE),
    (SlowRequestError, HTTPStatus.REQUEST_TIMEOUT),
    (DeadlineError, HTTPStatus.GATEWAY_TIMEOUT),
)
_HEADERS = {
    HTTPStatus.UNAUTHORIZED: {"WWW-Authenticate": "Bearer"},
    HTTPStatus.REQUEST_TIMEOUT: {"Connection": "close"},  # half a body is still to come on it
    HTTPStatus.SERVICE_UNAVAILABLE: {"Retry-After": str(RETRY_AFTER_S)},
    HTTPStatus.GATEWAY_TIMEOUT: {"Retry-After": str(RETRY_AFTER_S)},
}


@dataclass(frozen=True, slots=True)
class HttpError:
    """The answer to a request that failed: status, body and headers."""

    status: HTTPStatus
    answer: ErrorAnswer
    headers: Mapping[str, str] = field(default_factory=dict)


def http_error(error: ColocastError) -> HttpError:
    """Return the answer that a deliberate error becomes.

    Parameters
    ----------
    error : ColocastError
        One that is not in ``STATUSES`` says that the service itself is at fault: 503, never 500,
        since the caller's next step is the same as in an outage.

    Examples
    --------
    >>> http_error(UnknownProfileError(["bert"])).status
    <HTTPStatus.NOT_FOUND: 404>
    """
    status = next((status for kind, status in STATUSES if isinstance(error, kind)), None)
    if status is None:
        status = HTTPStatus.SERVICE_UNAVAILABLE
    return HttpError(status, ErrorAnswer(str(error), _faults(error)), _HEADERS.get(status, {}))


def route_error(status: HTTPStatus, found: str, allowed: str) -> HttpError:
    """Return the answer to a request that no route takes.

    Parameters
    ----------
    status : HTTPStatus
        404 or 405.
    found : str
        The path or method.
    allowed : str
        What would have been right: routes, or methods for the ``Allow`` header.
    """
    answer = ErrorAnswer(f"found {found}, wanted one of {allowed}")
    is_method = status is HTTPStatus.METHOD_NOT_ALLOWED
    return HttpError(status, answer, {"Allow": allowed} if is_method else {})


def _faults(error: ColocastError) -> tuple[Fault, ...]:
    if isinstance(error, RequestError):
        return tuple(Fault(*fault) for fault in error.faults)
    if isinstance(error, WireError):
        return (Fault(error.field, error.found, error.wanted),)
    return ()
