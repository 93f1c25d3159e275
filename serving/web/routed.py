"""A BentoML service whose routes are answered before BentoML's own middleware.

Around each request BentoML sets a timer that outlives it, builds a tracing context, and wraps it in
three objects: measured here, that is three quarters of the time of a one-pair request. The routes
need none of it: they have their own deadline, metrics and errors. Processes, sockets, workers,
health, configuration and lifetime stay BentoML's.
"""

from typing import Any

from _bentoml_sdk import Service
from starlette.types import ASGIApp, Receive, Scope, Send

from serving.web.mounted import ROUTES_PREFIX, LateApi


class RoutedService(Service[Any]):  # type: ignore[misc] # bentoml has no types
    """A service with routes under ``/v1`` that pass BentoML by; set `routes` before it serves."""

    routes: LateApi

    def to_asgi(self, is_main: bool = True) -> ASGIApp:
        """Return the application that a worker serves."""
        others: ASGIApp = super().to_asgi(is_main)
        routes, prefix = self.routes, f"{ROUTES_PREFIX}/"

        async def application(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] == "http" and scope["path"].startswith(prefix):
                await routes(scope, receive, send)
            else:
                await others(scope, receive, send)

        return application
