"""Which services make up colocast, with which commands and environments."""

import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event

from data.errors import ServiceStartError
from data.settings import Settings
from pipelines.services.processes import Service, ServiceGroup

HOST = "127.0.0.1"
PROMETHEUS_URL = "COLOCAST_PROMETHEUS_URL"
COLOCAST = (sys.executable, "-m", "pipelines")
# Measured (MLflow 3.17): job execution starts eight more processes and 670 MB for nothing we use.
MLFLOW_QUIET = {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false", "MLFLOW_DISABLE_TELEMETRY": "true"}


@dataclass(frozen=True, slots=True)
class Plan:
    """What to start, and how the loop should behave.

    Attributes
    ----------
    policy : str
        Scheduling policy of the loop.
    slots : int, optional
        Most devices to use; all that are found by default.
    device : {"cpu", "gpu"}, optional
        Kind of device; GPUs where there are any, by default.
    config : Path, optional
        The scheduler's configuration, by default its own.
    retrain_after : int
        Finished jobs that make the retrainer retrain.
    min_evidence : int
        Of these, jobs that must be able to teach a kind of model.
    shadow_jobs : int
        Jobs that a challenger answers beside the champion before it is promoted.
    watch_jobs : int
        Finished jobs between two looks for drift.
    """

    policy: str = "colocate"
    slots: int | None = None
    device: str | None = None
    config: Path | None = None
    retrain_after: int = 50
    min_evidence: int = 16
    shadow_jobs: int = 8
    watch_jobs: int = 50


def child_settings(settings: Settings) -> Settings:
    """Return the settings of everything started: MLflow is then spoken to over HTTP.

    Several processes that open a SQLite store themselves may block each other; a server that one
    started elsewhere (``MLFLOW_TRACKING_URI`` is an address) is left as it is.
    """
    if not settings.tracking_uri.startswith("sqlite"):
        return settings
    return replace(settings, tracking_uri=f"http://{HOST}:{settings.mlflow_port}")


def child_environment(settings: Settings, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a child: the caller's, with the settings spelt out."""
    spelt = {
        "COLOCAST_HOME": str(settings.home),
        "COLOCAST_JOBLOG_URL": settings.joblog_url,
        "COLOCAST_MLFLOW_PORT": str(settings.mlflow_port),
        "COLOCAST_SERVICE_PORT": str(settings.service_port),
        "COLOCAST_SCHEDULER_PORT": str(settings.scheduler_port),
        "MLFLOW_TRACKING_URI": child_settings(settings).tracking_uri,
    }
    return {**environ, **MLFLOW_QUIET, **spelt}


def mlflow_service(settings: Settings, environ: Mapping[str, str]) -> Service | None:
    """Return MLflow's own server and UI over the store, or None where one runs elsewhere."""
    if not settings.tracking_uri.startswith("sqlite"):
        return None
    environment = child_environment(settings, environ)
    del environment["MLFLOW_TRACKING_URI"]
    command = (
        *(sys.executable, "-m", "mlflow", "server", "--workers", "1", "--host", HOST),
        *("--port", str(settings.mlflow_port), "--backend-store-uri", settings.tracking_uri),
        *("--artifacts-destination", str(settings.artifacts_path)),
    )
    url = f"http://{HOST}:{settings.mlflow_port}/health"
    return Service("mlflow", command, environment, settings.mlflow_port, url)


def prediction_service(settings: Settings, environ: Mapping[str, str]) -> Service:
    """Return the BentoML service."""
    command = (*COLOCAST, "serve", "--port", str(settings.service_port))
    environment = child_environment(settings, environ)
    url = f"{settings.service_url}/readyz"
    return Service("service", command, environment, settings.service_port, url)


def retrainer(settings: Settings, environ: Mapping[str, str], plan: Plan) -> Service:
    """Return the loop that turns finished jobs into better models."""
    command = (
        *(*COLOCAST, "retrain", "--poll-s", "1", "--min-jobs", str(plan.retrain_after)),
        *("--min-evidence", str(plan.min_evidence), "--shadow-jobs", str(plan.shadow_jobs)),
        *("--watch-jobs", str(plan.watch_jobs)),
    )
    return Service("retrainer", command, child_environment(settings, environ))


def telemetry(settings: Settings, environ: Mapping[str, str], plan: Plan) -> Service | None:
    """Return what looks up finished jobs in a Prometheus, or None where none is named."""
    del plan
    if not environ.get(PROMETHEUS_URL):
        return None
    command = (*COLOCAST, "telemetry", "pull", "--follow")
    return Service("telemetry", command, child_environment(settings, environ))


def scheduler(settings: Settings, environ: Mapping[str, str], plan: Plan) -> Service:
    """Return the scheduler loop over this machine's devices."""
    slots = () if plan.slots is None else ("--slots", str(plan.slots))
    device = () if plan.device is None else ("--device", plan.device)
    config = () if plan.config is None else ("--config", str(plan.config))
    command = (*COLOCAST, "schedule", "--policy", plan.policy, *slots, *device, *config)
    environment = child_environment(settings, environ)
    url = f"http://{HOST}:{settings.scheduler_port}/status"
    return Service("scheduler", command, environment, settings.scheduler_port, url)


def start(group: ServiceGroup, *services: Service | None) -> None:
    """Start the services that are given, all at once, then wait until each answers.

    Raises
    ------
    ServiceStartError
        If one does not start or does not become ready.
    """
    present = [service for service in services if service is not None]
    for service in present:
        group.start(service)
    for service in present:
        group.wait_ready(service)


def start_trained(
    group: ServiceGroup, settings: Settings, environ: Mapping[str, str], *, always: bool
) -> None:
    """Start MLflow, train the models that have no champion, and start the prediction service.

    Parameters
    ----------
    always : bool
        Train all five models even where each has a champion.

    Raises
    ------
    ServiceStartError
        If a service does not start, or the training fails; it has said why on stderr.
    """
    start(group, mlflow_service(settings, environ))
    # The training talks for itself: progress, and what was promoted.
    missing = () if always else ("--missing",)
    trained = subprocess.run(
        (*COLOCAST, "train", "all", *missing), env=child_environment(settings, environ), check=False
    )
    if trained.returncode:
        raise ServiceStartError(f"the training ended with exit code {trained.returncode}")
    start(group, prediction_service(settings, environ))


def watch(group: ServiceGroup, stop: Event, say: Callable[[str], object]) -> None:
    """Wait until `stop` is set; a service that ends by itself is started again, and said.

    Raises
    ------
    ServiceStartError
        If one ends again and again.
    """
    while not stop.wait(1.0):
        for name in group.keep_up():
            say(f"{name} ended by itself and was started again; see {group.log_path(name)}")


def addresses(settings: Settings) -> dict[str, str]:
    """Return what a person may open in a browser, by name."""
    return {
        "MLflow": child_settings(settings).tracking_uri,
        "API docs": settings.service_url,
        "metrics": f"{settings.service_url}/metrics",
        "scheduler": f"http://{HOST}:{settings.scheduler_port}/status",
    }
