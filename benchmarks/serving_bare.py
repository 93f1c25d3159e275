"""A bare ASGI application that answers as the service does: what a framework's cost is measured by.

The same readers, the same predictor, the same writers, on uvicorn; no BentoML, no metrics, no
tokens, no limits, no admission.
"""

import gc
import os
from pathlib import Path
from typing import Any

from benchmarks.serving_processes import MODEL
from features.history import RuntimeHistory
from features.requests import requests_frame
from serving.champions.files import read_bundle
from serving.forest.check import with_compiled_forest
from serving.predictor import Predictor
from serving.web.endpoints import ENDPOINTS


class _Backend:
    def __init__(self) -> None:
        bundle = with_compiled_forest(
            read_bundle(Path(os.environ[MODEL]), "colocast-interference/1")
        )
        history = RuntimeHistory()
        self._predictor = Predictor(
            {bundle.spec.name: bundle}, lambda jobs, _: history.transform(requests_frame(jobs))
        )
        self._predictor.warm()

    def predictor(self) -> Predictor:
        return self._predictor


_BACKEND: Any = _Backend()
_FORMS = [*ENDPOINTS, *(each.binary for each in ENDPOINTS if each.binary)]
_RESPOND = {(endpoint.path, endpoint.media): endpoint.respond for endpoint in _FORMS}
gc.collect()
gc.freeze()


async def app(scope: Any, receive: Any, send: Any) -> None:
    """Answer one request."""
    if scope["type"] != "http":
        return
    parts, more = [], True
    while more:
        message = await receive()
        parts.append(message.get("body", b""))
        more = message.get("more_body", False)
    media = dict(scope["headers"]).get(b"content-type", b"application/json")
    respond = _RESPOND.get((scope["path"], media))
    body = respond(_BACKEND, b"".join(parts)).body if respond else b"ready"
    headers = [(b"content-type", media), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})
