"""The explainer's answers over HTTP: JSON, or one line of text that says what was wanted."""

import json
from dataclasses import dataclass
from http import HTTPStatus
from typing import Protocol
from urllib.parse import unquote

from data.errors import SettingError
from data.wire import Json
from scheduler_client.explaining.explainer import Explainer

WHY, EXPLAIN, WHATIF = "/why/", "/explain/", "/whatif"
QUESTIONS = (WHY, EXPLAIN)
LARGEST_BYTES = 65_536


class Readable(Protocol):
    """The body of a request."""

    def read(self, size: int, /) -> bytes:
        """Return `size` bytes."""
        ...


@dataclass(frozen=True, slots=True)
class Reply:
    """An HTTP answer."""

    status: HTTPStatus
    kind: str
    text: str


def asked(explainer: Explainer, path: str) -> Reply:
    """Return the answer to ``/why/JOB`` or ``/explain/JOB``."""
    prefix = WHY if path.startswith(WHY) else EXPLAIN
    job_id = unquote(path.removeprefix(prefix))
    found = explainer.why(job_id) if prefix == WHY else explainer.placement(job_id)
    if found is not None:
        return _json(found)
    wanted = "waits, runs or ran" if prefix == WHY else "was placed"
    return _text(
        HTTPStatus.NOT_FOUND,
        f"found no job {job_id!r}, wanted one that {wanted} since this scheduler started",
    )


def imagined(explainer: Explainer, length: str, body: Readable) -> Reply:
    """Return the answer to ``POST /whatif`` with a body of `length` bytes, as its header says."""
    if not length.isdigit() or int(length) > LARGEST_BYTES:
        wanted = f"wanted Content-Length of at most {LARGEST_BYTES}, got {length[:20]!r}"
        return _text(HTTPStatus.BAD_REQUEST, wanted)
    try:
        found = explainer.whatif(json.loads(body.read(int(length))))
    except SettingError as error:
        return _text(HTTPStatus.BAD_REQUEST, str(error))
    except (ValueError, RecursionError) as error:
        return _text(HTTPStatus.BAD_REQUEST, f"wanted a JSON object: {error}")
    if found is None:
        return _text(HTTPStatus.SERVICE_UNAVAILABLE, "no cycle yet")
    return _json(found)


def _json(document: Json) -> Reply:
    return Reply(HTTPStatus.OK, "application/json", json.dumps(document))


def _text(status: HTTPStatus, text: str) -> Reply:
    return Reply(status, "text/plain", text + "\n")
