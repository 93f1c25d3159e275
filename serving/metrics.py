"""What Prometheus may ask the service; right with several workers too."""

import os
from collections.abc import Mapping

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
    multiprocess,
)

from data.domain import ServedModel

CONTENT_TYPE = CONTENT_TYPE_LATEST
BUCKETS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
MULTIPROC_DIR = "PROMETHEUS_MULTIPROC_DIR"  # BentoML sets it for its workers


class Metrics:
    """Counts and durations of one worker.

    Routes that do not exist are counted together, so that nobody can fill the memory by asking
    for ever new paths.
    """

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry()
        self._seconds = Histogram(
            "colocast_request_seconds",
            "Time from the request's head to its answer",
            ("route", "status"),
            buckets=BUCKETS,
            registry=registry,
        )
        self._rows = Counter(
            "colocast_estimates",
            "Estimates answered, by model version and source",
            ("route", "model_version", "source"),
            registry=registry,
        )
        self._version = self._gauge(
            "colocast_model_version", "Version that serves; 0 where none does", "model"
        )
        self._loaded = self._gauge(
            "colocast_model_loaded_time_seconds", "When the version was loaded (UTC)", "model"
        )
        self._refused = self._gauge(
            "colocast_model_refused", "1 while a version is refused or an alias is gone", "model"
        )
        self._swaps = self._gauge("colocast_model_swaps", "Versions replaced since the start")
        self._registry_up = self._gauge(
            "colocast_registry_up", "1 while the registry answers the worker"
        )
        self._shadow_outcomes = self._gauge(
            "colocast_shadow_outcomes", "Outcomes that champion and shadow are compared by", "kind"
        )
        self._shadow_error = self._gauge(
            "colocast_shadow_error", "Mean absolute log error on those outcomes", "kind", "who"
        )
        self._sequence = self._gauge(
            "colocast_job_log_sequence", "Newest job log entry in the worker's history"
        )

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(name, text, labels, registry=self._registry, multiprocess_mode="livemax")

    def request(self, route: str, status: int, seconds: float) -> None:
        """Count one answered request."""
        self._seconds.labels(route, str(status)).observe(seconds)

    def estimates(self, route: str, counts: Mapping[tuple[str, str], int]) -> None:
        """Count estimates by (model version, source)."""
        for (version, source), count in counts.items():
            self._rows.labels(route, version, source).inc(count)

    def models(self, models: tuple[ServedModel, ...], swaps: int, *, registry_up: bool) -> None:
        """Say which versions serve."""
        for model in models:
            self._version.labels(model.name).set(_number(model.version))
            self._loaded.labels(model.name).set(model.loaded_time or 0.0)
            self._refused.labels(model.name).set(model.refused_reason is not None)
        self._swaps.set(swaps)
        self._registry_up.set(registry_up)

    def shadow(self, kind: str, count: int, champion: float, shadow: float) -> None:
        """Say how champion and shadow have done where the outcome is known."""
        self._shadow_outcomes.labels(kind).set(count)
        for who, error in (("champion", champion), ("shadow", shadow)):
            self._shadow_error.labels(kind, who).set(error)

    def sequence(self, sequence: int) -> None:
        """Say how far the worker's history has come."""
        self._sequence.set(sequence)

    def page(self) -> bytes:
        """Return the metrics of all workers in Prometheus' text format."""
        if MULTIPROC_DIR not in os.environ:
            return generate_latest(self._registry)
        merged = CollectorRegistry()
        multiprocess.MultiProcessCollector(merged)  # type: ignore[no-untyped-call] # upstream
        return generate_latest(merged)


METRICS = Metrics()
"""Of this process. prometheus_client keeps the values of a name once a process in any case."""


def _number(version: str | None) -> float:
    """Return a version as a number; MLflow's versions are whole numbers."""
    return float(version) if version is not None and version.isdecimal() else 0.0
