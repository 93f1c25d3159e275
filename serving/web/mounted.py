"""What BentoML mounts: shells that are filled once a worker has loaded what is behind them.

BentoML imports the service in its supervisor too, which only needs to know that there is one.
"""

from collections.abc import Awaitable, Callable
from http import HTTPStatus
from importlib.resources import files

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

ROUTES_PREFIX = "/v1"
STARTING = b'{"error": "the service is starting; ask again in a second", "detail": []}'


class LateApi:
    """The routes under ``/v1``; answers 503 until `attach` was called."""

    def __init__(self) -> None:
        self._app: Callable[[Scope, Receive, Send], Awaitable[None]] | None = None

    def attach(self, app: Callable[[Scope, Receive, Send], Awaitable[None]]) -> None:
        """Let `app` answer from now on."""
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        if self._app is not None:
            await self._app(scope, receive, send)
            return
        starting = Response(STARTING, HTTPStatus.SERVICE_UNAVAILABLE, media_type="application/json")
        await starting(scope, receive, send)


def site(metrics_page: Callable[[], Response]) -> Starlette:
    """Return the pages beside the routes: API documentation, its document, and metrics.

    Parameters
    ----------
    metrics_page : callable
        Returns the current metrics.
    """
    return Starlette(
        routes=[
            Route("/", _index),
            Route("/docs.json", _openapi),
            Route("/openapi.json", _openapi),
            Route("/metrics", lambda _: metrics_page()),
        ]
    )


def _index(request: Request) -> Response:
    del request
    return HTMLResponse(files("serving.web").joinpath("index.html").read_text(encoding="utf-8"))


def _openapi(request: Request) -> Response:
    from serving.web.openapi import openapi_document  # noqa: PLC0415 - not in the supervisor

    del request
    return Response(openapi_document(), media_type="application/json")
