"""GET requests to one MLflow server that end in time, stay small and stay with that server."""

import base64
import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import unquote, urlencode, urlsplit, urlunsplit

import urllib3

from data.errors import RegistryError
from data.urls import without_credentials

TIMEOUT = urllib3.Timeout(connect=2.0, read=10.0)  # between two pieces of an answer
JSON_S = 15.0  # for a whole JSON answer, however slowly it drips
JSON_BYTES = 32 * 2**20
CHUNK_BYTES = 2**20


class RegistryHttp:
    """An MLflow server as GET requests; each ends in an answer or in a `RegistryError`.

    Parameters
    ----------
    tracking_uri : str
        ``http://HOST:PORT`` or ``https://…``; may hold a user name and a password.
    environ : mapping of str to str
        As for `credentials`.

    Notes
    -----
    Redirects are not followed: a registry must not choose which hosts the service talks to, nor
    see its credentials sent there.
    """

    def __init__(self, tracking_uri: str, environ: Mapping[str, str]) -> None:
        parts = urlsplit(tracking_uri.rstrip("/"))
        host = parts.netloc.rpartition("@")[2]
        self.url = urlunsplit((parts.scheme, host, parts.path, "", ""))
        self._headers = credentials(environ) or _basic(parts.username, parts.password)
        self._http = urllib3.PoolManager(timeout=TIMEOUT, retries=False, maxsize=2)

    def json(self, path: str, query: Mapping[str, str]) -> Any:
        """Return the JSON document at `path`."""
        deadline_s = time.monotonic() + JSON_S
        parts: list[bytes] = []
        for chunk in self.chunks(f"{path}?{urlencode(query)}", deadline_s):
            parts.append(chunk)
            if sum(map(len, parts)) > JSON_BYTES:
                found = f"more than {JSON_BYTES} bytes"
                raise RegistryError(f"{self.url}{path}: found {found}, wanted a shorter answer")
        body = b"".join(parts)
        try:
            return json.loads(body)
        except (ValueError, RecursionError) as error:
            raise RegistryError(f"{self.url}{path}: found {body[:60]!r}, wanted JSON") from error

    def chunks(self, path: str, deadline_s: float) -> Iterator[bytes]:
        """Yield the body at `path` piece by piece, until `deadline_s` on the monotonic clock."""
        with self._faults():
            response = self._http.request(
                "GET",
                self.url + path,
                headers=self._headers,
                redirect=False,
                preload_content=False,
            )
        try:
            if response.status != 200:
                where = without_credentials(self.url + path)
                raise RegistryError(f"{where}: found status {response.status}, wanted 200")
            with self._faults():
                yield from _until(response, deadline_s, lambda: self.url + path)
        except BaseException:
            response.close()  # the rest of it is not read
            raise
        response.release_conn()

    @contextmanager
    def _faults(self) -> Iterator[None]:
        try:
            yield
        except (urllib3.exceptions.HTTPError, OSError) as error:
            text = " ".join(str(error).split())
            raise RegistryError(f"MLflow at {self.url}: {text}; is it running?") from error


def _until(
    response: urllib3.BaseHTTPResponse, deadline_s: float, name: Callable[[], str]
) -> Iterator[bytes]:
    while chunk := response.read1(CHUNK_BYTES):  # what is there, so that a drip is noticed
        if time.monotonic() > deadline_s:
            where = without_credentials(name())
            raise RegistryError(f"{where}: found half an answer, wanted all of it in time")
        yield chunk


def credentials(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the Authorization header that MLflow's variables ask for.

    Parameters
    ----------
    environ : mapping of str to str
        ``MLFLOW_TRACKING_TOKEN``, or ``MLFLOW_TRACKING_USERNAME`` and
        ``MLFLOW_TRACKING_PASSWORD``.

    Examples
    --------
    >>> credentials({"MLFLOW_TRACKING_TOKEN": "t"})
    {'Authorization': 'Bearer t'}
    >>> credentials({})
    {}
    """
    token = environ.get("MLFLOW_TRACKING_TOKEN")
    if token:
        return {"Authorization": f"Bearer {token}"}
    return _basic(environ.get("MLFLOW_TRACKING_USERNAME"), environ.get("MLFLOW_TRACKING_PASSWORD"))


def _basic(user: str | None, password: str | None) -> dict[str, str]:
    if not user:
        return {}
    pair = f"{unquote(user)}:{unquote(password or '')}"
    return {"Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}
