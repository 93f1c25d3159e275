"""A BentoML service that answers nothing: what any service on BentoML takes to start."""

import bentoml


@bentoml.service(name="empty", workers=1, metrics={"enabled": False})
class Empty:
    """Holds nothing."""


empty = Empty
