"""One HTTP request with one deadline for everything: connecting, waiting, every last byte."""

import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.exceptions import HTTPError, LocationParseError, NewConnectionError
from urllib3.exceptions import TimeoutError as HttpTimeoutError

from data.errors import (
    PredictionInvalidError,
    PredictionTimeoutError,
    PredictionUnavailableError,
    SettingError,
)
from data.urls import without_credentials

LARGEST_ANSWER_BYTES = 64 * 2**20
DEADLINE_HEADER = "X-Request-Deadline-Ms"
MOST_DEADLINE_MS = 9_999_999
LONGEST_NUMBER = 9  # digits of a Retry-After


@dataclass(frozen=True, slots=True)
class Answer:
    """Status and body of an HTTP answer; `retry_after_s` where it says when to come back (s)."""

    status: int
    body: bytes
    retry_after_s: float | None = None


class Exchange:
    """A keep-alive connection pool to one service.

    Parameters
    ----------
    url : str
        ``http`` or ``https``, with host, port and maybe a path before the routes.
    headers : mapping of str to str
        Sent with every request.

    Raises
    ------
    SettingError
        If `url` is none.
    """

    def __init__(self, url: str, headers: Mapping[str, str]) -> None:
        try:
            parsed = urllib3.util.parse_url(url)
        except LocationParseError as error:
            raise SettingError(f"service URL: {type(error).__name__}; wanted HOST:PORT") from error
        if parsed.scheme not in ("http", "https") or not parsed.host:
            found = repr(without_credentials(url))
            raise SettingError(f"service URL must be http(s)://HOST:PORT, got {found}")
        pool = _HttpPool if parsed.scheme == "http" else _HttpsPool
        self._url, self._prefix = without_credentials(url), (parsed.path or "").rstrip("/")
        self._pool = pool(parsed.host, parsed.port, maxsize=2, headers=dict(headers))

    def send(self, method: str, path: str, body: bytes | None, deadline_s: float) -> Answer:
        """Return the answer to one request.

        Parameters
        ----------
        deadline_s : float
            Moment on the clock of ``time.monotonic`` at which to give up.

        Raises
        ------
        PredictionTimeoutError
            If the whole answer was not here by then.
        PredictionUnavailableError
            If no connection could be made, or it broke.
        PredictionInvalidError
            If the answer is too large.
        """
        try:
            return self._sent(method, path, body, deadline_s)
        except (HTTPError, OSError) as error:
            late = isinstance(error, HttpTimeoutError)  # as urllib3 calls a refused connection, too
            if time.monotonic() >= deadline_s or (
                late and not isinstance(error, NewConnectionError)
            ):
                raise PredictionTimeoutError(f"{self._url}{path}: no answer in time") from error
            raise PredictionUnavailableError(f"{self._url}{path}: {_cause(error)}") from error

    def close(self) -> None:
        """Close idle connections."""
        self._pool.close()

    def _sent(self, method: str, path: str, body: bytes | None, deadline_s: float) -> Answer:
        left_s = max(0.001, deadline_s - time.monotonic())
        response = self._pool.urlopen(
            method,
            self._prefix + path,
            body=body,
            headers={**self._pool.headers, **({} if body is None else _JSON), **_left(left_s)},
            retries=False,
            redirect=False,
            timeout=urllib3.Timeout(connect=left_s, read=left_s),
            preload_content=False,
        )
        try:
            with _cut_after(max(0.001, deadline_s - time.monotonic()), response.shutdown):
                content = response.read(LARGEST_ANSWER_BYTES + 1)
        except BaseException:
            response.close()
            raise
        if len(content) > LARGEST_ANSWER_BYTES:
            response.close()
            wanted = f"at most {LARGEST_ANSWER_BYTES} bytes"
            raise PredictionInvalidError(
                f"{self._url}{path}: found a larger answer, wanted {wanted}"
            )
        response.release_conn()
        if time.monotonic() >= deadline_s:  # cut off: what is here may be a part
            raise PredictionTimeoutError(f"{self._url}{path}: no answer in time")
        return Answer(response.status, content, _seconds_of(response.headers.get("Retry-After")))


_JSON = {"Content-Type": "application/json"}


def _left(left_s: float) -> dict[str, str]:
    """Return the header that tells the service how long its answer is of use."""
    return {DEADLINE_HEADER: str(min(MOST_DEADLINE_MS, max(1, int(1e3 * left_s))))}


def _seconds_of(retry_after: str | None) -> float | None:
    """Return the seconds of a Retry-After header; a date in it is of the server's clock, and none.

    Examples
    --------
    >>> _seconds_of("2"), _seconds_of("Wed, 21 Oct 2015 07:28:00 GMT"), _seconds_of(None)
    (2.0, None, None)
    """
    text = (retry_after or "").strip()
    is_seconds = text.isascii() and text.isdecimal() and len(text) <= LONGEST_NUMBER
    return float(text) if is_seconds else None


class _CutConnection(HTTPConnection):
    """Socket timeouts restart with every byte; this one ends a trickle of headers too."""

    def getresponse(self) -> Any:
        with _cut_after(_seconds(self.timeout), lambda: self.sock.shutdown(socket.SHUT_RDWR)):
            return super().getresponse()


class _CutHttpsConnection(HTTPSConnection):
    def getresponse(self) -> Any:
        with _cut_after(_seconds(self.timeout), lambda: self.sock.shutdown(socket.SHUT_RDWR)):
            return super().getresponse()


class _HttpPool(HTTPConnectionPool):
    ConnectionCls = _CutConnection


class _HttpsPool(HTTPSConnectionPool):
    ConnectionCls = _CutHttpsConnection


@contextmanager
def _cut_after(seconds: float, cut: Callable[[], object]) -> Iterator[None]:
    """Call `cut`, which ends a blocked read, unless the block is left within `seconds`."""

    def end() -> None:
        with suppress(OSError, ValueError, AttributeError):  # it has just ended by itself
            cut()

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _seconds(timeout: object) -> float:
    return float(timeout) if isinstance(timeout, int | float) else 60.0


def _cause(error: Exception) -> str:
    text = " ".join(str(error).split())
    if isinstance(error, NewConnectionError):
        return text.partition(": ")[2]  # before it stands only the connection's own name
    return f"{type(error).__name__}: {text}"[:200]
