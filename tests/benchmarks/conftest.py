"""Versions of a small model, as the service's own tests have them."""

from tests.serving.conftest import pairs, profiles, versions  # noqa: F401
