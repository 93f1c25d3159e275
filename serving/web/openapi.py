"""The OpenAPI document: generated from the table of routes and the readers themselves."""

import json
from functools import cache
from http import HTTPStatus
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from serving.web.endpoints import ENDPOINTS, Endpoint
from serving.web.examples import EXAMPLES
from serving.web.limits import BODY_BYTES
from serving.web.wire_binary import MEDIA, SOURCES
from serving.web.wire_models import ErrorAnswer
from serving.web.wire_schema import Writer, answer_schemas, request_schemas

Document = dict[str, Any]
OCTETS = MEDIA.decode()
_PAIRS_FRAME = """Little-endian: the four bytes `CPR1`; the number of pairs and of names, uint32
each; for each pair the positions of job_key, neighbour_key and gpu_model among the names, uint32
each; then each name as its length in bytes, uint16, and UTF-8."""
_ESTIMATES_FRAME = f"""Little-endian: the four bytes `CES1`; the number of estimates and of names,
uint32 each; for each estimate value, lower and upper, float64 each, the position of model_version
among the names, uint16, source and in_domain, uint8 each, and four zero bytes; then each name as
its length in bytes, uint16, and UTF-8. Sources are counted from 0: {", ".join(SOURCES)}."""

_ALWAYS = (
    HTTPStatus.UNAUTHORIZED,
    HTTPStatus.SERVICE_UNAVAILABLE,
    HTTPStatus.GATEWAY_TIMEOUT,
)
_WITH_BODY = (
    HTTPStatus.BAD_REQUEST,
    HTTPStatus.REQUEST_TIMEOUT,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
)
_SAYS = {
    HTTPStatus.BAD_REQUEST: "The body is not what this document says; names the fields.",
    HTTPStatus.UNAUTHORIZED: "A bearer token is wanted, and the request carries none that fits.",
    HTTPStatus.NOT_FOUND: "A job key was never profiled; names the keys.",
    HTTPStatus.REQUEST_TIMEOUT: "The body did not arrive in time.",
    HTTPStatus.CONFLICT: "The job log holds another content under the same job id and attempt.",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: f"The body is larger than {BODY_BYTES} bytes.",
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE: "The body is of another media type, or compressed.",
    HTTPStatus.SERVICE_UNAVAILABLE: "No champion, no job log, or too many requests; try again.",
    HTTPStatus.GATEWAY_TIMEOUT: "No answer within the caller's deadline, or the service's.",
}
_ABOUT = """Slowdown, runtime, GPU memory and placement predictions.

Any request may say in the header `X-Request-Deadline-Ms` how long its caller waits, in whole
milliseconds from the sending. A request that would be answered later is refused at once: 503 with
`Retry-After`."""
_PLAIN = {
    "/livez": ("The process is alive.", "text/plain"),
    "/readyz": ("The service can predict.", "text/plain"),
    "/metrics": ("Prometheus metrics of all workers.", "text/plain"),
}


@cache
def openapi_document() -> bytes:
    """Return the OpenAPI 3.1 document as JSON."""
    return json.dumps(_document()).encode()


def _document() -> Document:
    errors = Writer(ErrorAnswer)
    readers = [endpoint.reader for endpoint in ENDPOINTS if endpoint.reader]
    writers = [*(endpoint.writer for endpoint in ENDPOINTS), errors]
    # Where a type is taken and answered alike, the stricter request schema stands for both.
    schemas = {**answer_schemas(writers), **request_schemas(readers)}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "colocast predictor",
            "version": _version(),
            "description": _ABOUT,
        },
        "paths": {
            **{e.path: {e.method.lower(): _operation(e)} for e in ENDPOINTS},
            **{path: {"get": _plain(path, *facts)} for path, facts in _PLAIN.items()},
        },
        "components": {
            "schemas": schemas,
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(endpoint: Endpoint) -> Document:
    body = {"requestBody": _request_body(endpoint)} if endpoint.reader else {}
    answer = {
        "description": (endpoint.writer.kind.__doc__ or "").split("\n")[0],
        "content": {
            "application/json": {"schema": _reference(endpoint.writer.kind)},
            **({OCTETS: _octets(_ESTIMATES_FRAME)} if endpoint.binary else {}),
        },
    }
    failures = (*_ALWAYS, *endpoint.failures)
    statuses = {*failures, *(_WITH_BODY if endpoint.reader else ())}
    return {
        "operationId": endpoint.path.rsplit("/", 1)[-1],
        "summary": endpoint.summary,
        "security": [{}, {"bearer": []}],
        **body,
        "responses": {
            "200": answer,
            **{str(status.value): _failure(status) for status in sorted(statuses)},
        },
    }


def _request_body(endpoint: Endpoint) -> Document:
    assert endpoint.reader is not None
    content = {"schema": _reference(endpoint.reader.kind), "example": EXAMPLES[endpoint.path]}
    octets = {OCTETS: _octets(_PAIRS_FRAME)} if endpoint.binary else {}
    return {"required": True, "content": {"application/json": content, **octets}}


def _octets(description: str) -> Document:
    return {"schema": {"type": "string", "format": "binary", "description": description}}


def _failure(status: HTTPStatus) -> Document:
    content = {"application/json": {"schema": _reference(ErrorAnswer)}}
    return {"description": _SAYS[status], "content": content}


def _plain(path: str, summary: str, kind: str) -> Document:
    responses = {"200": {"description": summary, "content": {kind: {"schema": {"type": "string"}}}}}
    if path == "/readyz":
        responses["503"] = {
            "description": "It cannot, and why.",
            "content": {kind: {"schema": {"type": "string"}}},
        }
    return {"operationId": path.strip("/"), "summary": summary, "responses": responses}


def _reference(kind: type) -> Document:
    return {"$ref": f"#/components/schemas/{kind.__name__}"}


def _version() -> str:
    try:
        return version("colocast")
    except PackageNotFoundError:
        return "0"
