"""Asks the running scheduler over HTTP, for the command line."""

import json
import urllib.error
import urllib.parse
import urllib.request
from http import HTTPStatus

from data.errors import ClusterError, SettingError
from data.wire import Json

TIMEOUT_S = 30.0


def answer_of(port: int, path: str, question: Json = None) -> dict[str, Json]:
    """Return what the scheduler on this machine answers.

    Parameters
    ----------
    port : int
        Of its status (``COLOCAST_SCHEDULER_PORT``).
    question : JSON value, optional
        Sent with POST; without it, GET.

    Raises
    ------
    ClusterError
        If no scheduler answers there, or not with JSON: says what to do.
    SettingError
        If it knows no such job, or refuses the question.
    """
    url = f"http://127.0.0.1:{port}{urllib.parse.quote(path)}"
    body = None if question is None else json.dumps(question).encode()
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as response:  # noqa: S310
            found = json.loads(response.read())
    except urllib.error.HTTPError as error:
        with error:
            said = error.read(2000).decode("utf-8", "replace").strip()
        if error.code in (HTTPStatus.NOT_FOUND, HTTPStatus.BAD_REQUEST):
            raise SettingError(said) from error
        raise ClusterError(f"scheduler on port {port}: HTTP {error.code}: {said}") from error
    except (OSError, ValueError) as error:
        raise ClusterError(
            f"no scheduler answers on port {port} ({_cause(error)}); start it with `colocast"
            " schedule` or `colocast up`, or set COLOCAST_SCHEDULER_PORT to where it listens"
        ) from error
    if not isinstance(found, dict):
        raise ClusterError(f"port {port} answers, but not as a scheduler of colocast")
    return found


def _cause(error: Exception) -> str:
    return str(getattr(error, "reason", error))
