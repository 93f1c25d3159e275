"""The BentoML service: process, health and lifetime around the routes of ``serving.web.api``.

BentoML's own codec ignores unknown fields and reads NaN, and its description of a route knows
neither ranges nor errors. So the routes are an ASGI application in BentoML's workers, and the
OpenAPI document is made from the same readers. ``colocast serve`` starts this module with the
tuned profile of ``serving.profile_env``.
"""

import gc
import logging
import os
import sys
from http import HTTPStatus
from typing import cast

import bentoml
from starlette.exceptions import HTTPException
from starlette.responses import Response

from serving.lifeline import end_with_parent
from serving.profile_env import (
    COLLECT_AFTER,
    SWITCH_S,
    TIMEOUT_S,
    WORKERS,
    checked_workers,
    poll_interval_s,
    push_book_path,
    push_secret_path,
    silence_access_log,
    token_path,
)
from serving.web.mounted import LateApi, site
from serving.web.routed import RoutedService

# What imports leave alive for good is walked by the collector over and over: a tenth of a start.
gc.set_threshold(COLLECT_AFTER)

API = LateApi()


def metrics_page() -> Response:
    """Return the metrics of all workers."""
    # The supervisor imports this module too, and needs nothing of pandas or scikit-learn.
    from serving.metrics import CONTENT_TYPE, METRICS  # noqa: PLC0415

    return Response(METRICS.page(), media_type=CONTENT_TYPE)


@bentoml.service(
    name="predictor",
    workers=checked_workers(os.environ.get(WORKERS, "1")),
    traffic={"timeout": TIMEOUT_S},
    # BentoML labels its metrics with whatever path is asked for; ours know the routes.
    metrics={"enabled": False},
    logging={"access": {"enabled": False}},
    service_class=RoutedService,
)
@bentoml.asgi_app(site(metrics_page), path="/")
class Predictor:
    """Predictions for a scheduler; holds models and history, does no maths."""

    def __init__(self) -> None:
        from serving.metrics import METRICS  # noqa: PLC0415
        from serving.state import ServingState  # noqa: PLC0415
        from serving.web.api import Api  # noqa: PLC0415 - not in the supervisor
        from serving.web.pushes import pushes_from_file  # noqa: PLC0415
        from serving.web.tokens import tokens_from_file  # noqa: PLC0415

        end_with_parent(os.environ)
        sys.setswitchinterval(SWITCH_S)
        silence_access_log()
        logging.getLogger("serving").setLevel(logging.INFO)
        tokens = tokens_from_file(token_path(os.environ))
        pushes = pushes_from_file(push_secret_path(os.environ), push_book_path(os.environ))
        self._state = ServingState.from_environment(os.environ, METRICS, pushes.book)
        self._state.start(poll_interval_s(os.environ))
        API.attach(Api(METRICS, tokens, self._state, pushes))

    async def __is_alive__(self) -> bool:
        """Return whether the background threads run; without one, a restart is due."""
        return self._state.is_alive()

    async def __is_ready__(self) -> bool:
        """Return True where a slowdown can be predicted, else answer 503 with the reason."""
        reason = self._state.unready()
        if reason:
            raise HTTPException(HTTPStatus.SERVICE_UNAVAILABLE, reason)
        return True

    @bentoml.on_shutdown  # type: ignore[untyped-decorator] # bentoml has no types
    def stop(self) -> None:
        """End the background threads."""
        self._state.stop()


predictor = cast("RoutedService", Predictor)
"""What ``bentoml serve serving.service:predictor`` starts."""

predictor.routes = API
