"""What Prometheus may ask the service; right with several workers too."""

import os
from collections.abc import Mapping
from pathlib import Path

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
    multiprocess,
)

from data.domain import ServedModel, Source
from serving.metric_files import forget_dead_workers, prepare_files

CONTENT_TYPE = CONTENT_TYPE_LATEST
BUCKETS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
MULTIPROC_DIR = "PROMETHEUS_MULTIPROC_DIR"  # BentoML sets it for its workers
NOBODY = ("none", "none")
FALLBACKS = (Source.COLD_START.value, Source.HEURISTIC.value)
MOST_VERSIONS, LATER = 100, "later"


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
            ("route", "status", "model_version", "source"),
            buckets=BUCKETS,
            registry=registry,
        )
        self._rows = Counter(
            "colocast_estimates",
            "Estimates answered, by model version and source",
            ("route", "model_version", "source"),
            registry=registry,
        )
        self._fallbacks = Counter(
            "colocast_fallbacks",
            "Estimates that no model made, by what stood in for one",
            ("route", "source"),
            registry=registry,
        )
        self._versions: set[str] = set()
        self._timers: dict[tuple[str, str, str, str], Histogram] = {}
        self._counters: dict[tuple[str, str, str], Counter] = {}
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
        self._age = self._gauge(
            "colocast_model_age_seconds", "Since the version was registered; 0 if unknown", "model"
        )
        self._live_error = self._gauge(
            "colocast_live_error",
            "Median absolute log error of the newest predictions whose outcome is known",
            "kind",
        )
        self._live_outcomes = self._gauge(
            "colocast_live_outcomes", "Outcomes that the live error is taken over", "kind"
        )
        self._sequence = self._gauge(
            "colocast_job_log_sequence", "Newest job log entry in the worker's history"
        )

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        # The newest value, so that a rollback shows; of workers that live, as the others stay put.
        registry = self._registry
        return Gauge(name, text, labels, registry=registry, multiprocess_mode="livemostrecent")

    def request(
        self, route: str, status: int, seconds: float, counts: Mapping[tuple[str, str], int]
    ) -> None:
        """Count one answered request and its estimates.

        Parameters
        ----------
        route : str
        status : int
        seconds : float
        counts : mapping of (model version, source) to int
            Its time is counted under the most frequent of them.
        """
        version, source = max(counts, key=counts.__getitem__) if counts else NOBODY
        seen = self._seen(version)
        timed = (route, str(int(status)), seen, source)
        timer = self._timers.get(timed)
        if timer is None:  # to look a series up by its labels takes as long as to count
            timer = self._timers[timed] = self._seconds.labels(*timed)
        timer.observe(seconds)
        for (version, source), count in counts.items():
            counted = (route, self._seen(version), source)
            counter = self._counters.get(counted)
            if counter is None:
                counter = self._counters[counted] = self._rows.labels(*counted)
            counter.inc(count)
            if source in FALLBACKS:
                self._fallbacks.labels(route, source).inc(count)

    def _seen(self, version: str) -> str:
        """Return the version's label; after so many, one for all: labels stay in memory."""
        if version not in self._versions:
            if len(self._versions) >= MOST_VERSIONS:
                return LATER
            self._versions.add(version)
        return version

    def ages(self, ages_s: Mapping[str, float]) -> None:
        """Say how old the versions are that serve, by registered name (s)."""
        for name, age_s in ages_s.items():
            self._age.labels(name).set(age_s)

    def live_error(self, kind: str, count: int, error: float) -> None:
        """Say how far off predictions were, as absolute log error, where the outcome is known."""
        self._live_outcomes.labels(kind).set(count)
        self._live_error.labels(kind).set(error)

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
        forget_dead_workers(Path(os.environ[MULTIPROC_DIR]))
        merged = CollectorRegistry()
        multiprocess.MultiProcessCollector(merged)  # type: ignore[no-untyped-call] # upstream
        return generate_latest(merged)


prepare_files(os.environ)
METRICS = Metrics()
"""Of this process. prometheus_client keeps the values of a name once a process in any case."""


def _number(version: str | None) -> float:
    """Return a version as a number; MLflow's versions are whole numbers."""
    return float(version) if version is not None and version.isdecimal() else 0.0
