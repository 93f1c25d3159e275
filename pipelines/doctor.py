"""Look an installation over, and say for each part what was found and what to do."""

import importlib
import os
import shutil
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from data.domain import REGISTERED_MODELS
from data.errors import ColocastError, ServiceStartError
from data.prometheus.config import TelemetryConfig, load_telemetry
from data.prometheus.source import PrometheusSource
from data.settings import Settings
from pipelines.services.parts import PROMETHEUS_URL
from pipelines.services.processes import answers, refuse_taken_port
from pipelines.telemetry.check import checked_cards

NEEDED_MODULES = ("bentoml", "lightgbm", "mlflow", "pandas", "pyarrow", "sklearn", "skops")
NEEDED_DISK_MIB = 500


class State(StrEnum):
    """How a part is; only ``FAIL`` makes the doctor exit with 1."""

    OK = "ok"
    NOTE = "note"  # not there yet; nothing is broken
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Finding:
    """One part of the installation: its state, what was found, and the next step."""

    part: str
    state: State
    found: str
    advice: str = ""


def examine(settings: Settings, mapping: Mapping[str, str]) -> list[Finding]:
    """Return the findings of every check, in the order of a start.

    Parameters
    ----------
    settings : Settings
    mapping : mapping of str to str
        The environment; ``MLFLOW_TRACKING_URI`` and ``COLOCAST_JOBLOG_URL`` are named in advice.
    """
    checks: tuple[tuple[str, Callable[[], Finding]], ...] = (
        ("python", lambda: python_finding(sys.version_info[:2])),
        ("packages", packages_finding),
        ("home", lambda: home_finding(settings.home)),
        ("devices", devices_finding),
        ("registry", lambda: registry_finding(settings, mapping)),
        ("champions", lambda: champions_finding(settings)),
        ("job log", lambda: joblog_finding(settings)),
        ("mlflow port", lambda: port_finding("mlflow", settings.mlflow_port, "/health")),
        ("service port", lambda: port_finding("service", settings.service_port, "/readyz")),
    )
    url = mapping.get(PROMETHEUS_URL)
    if url:
        checks += (("telemetry", lambda: telemetry_finding(settings, mapping, url)),)
    return [_examined(part, check) for part, check in checks]


def _examined(part: str, check: Callable[[], Finding]) -> Finding:
    try:
        return check()
    except ColocastError as error:
        return Finding(part, State.FAIL, str(error), "see the message")


def python_finding(python: tuple[int, int]) -> Finding:
    """Judge the Python version.

    Examples
    --------
    >>> python_finding((3, 10)).state
    <State.FAIL: 'fail'>
    """
    found = f"{python[0]}.{python[1]}"
    if (3, 11) <= python < (3, 14):
        return Finding("python", State.OK, found)
    return Finding("python", State.FAIL, found, "use Python 3.11, 3.12 or 3.13")


def packages_finding() -> Finding:
    """Import what every part needs."""
    broken = []
    for name in NEEDED_MODULES:
        try:
            importlib.import_module(name)
        except ImportError as error:
            broken.append(f"{name}: {error}")
    if broken:
        return Finding("packages", State.FAIL, "; ".join(broken), "install from requirements.lock")
    return Finding("packages", State.OK, f"colocast {_own_version()}, all imports work")


def _own_version() -> str:
    try:
        return version("colocast")
    except PackageNotFoundError:
        return "from a folder"


def home_finding(home: Path) -> Finding:
    """Judge whether colocast's folder can be written, and the space on its disk."""
    place = next(parent for parent in (home, *home.parents) if parent.exists())
    if not os.access(place, os.W_OK):
        advice = "set COLOCAST_HOME to a folder of yours"
        return Finding("home", State.FAIL, f"{place} cannot be written", advice)
    free_mib = shutil.disk_usage(place).free // 2**20
    if free_mib < NEEDED_DISK_MIB:
        advice = f"free at least {NEEDED_DISK_MIB} MiB, or move COLOCAST_HOME"
        return Finding("home", State.FAIL, f"{free_mib} MiB free at {place}", advice)
    return Finding("home", State.OK, f"{home}, {free_mib} MiB free")


def devices_finding() -> Finding:
    """Name the devices that the local cluster would use."""
    from scheduler_client.local.devices import discover  # noqa: PLC0415 - asks the GPU driver

    devices = discover()
    models = ", ".join(f"{device.card_id} ({device.model})" for device in devices)
    return Finding("devices", State.OK, f"{len(devices)}: {models}")


def registry_finding(settings: Settings, mapping: Mapping[str, str]) -> Finding:
    """Judge whether MLflow's store is there and answers."""
    if _no_store_yet(settings):
        return Finding(
            "registry", State.NOTE, "no MLflow store yet", "colocast up, or colocast train"
        )
    from pipelines.registering.registry import Registry  # noqa: PLC0415 - MLflow takes seconds to import

    names = [
        name
        for name in REGISTERED_MODELS
        if Registry(settings.tracking_uri, settings.artifacts_path).versions(name)
    ]
    where = "MLFLOW_TRACKING_URI" if "MLFLOW_TRACKING_URI" in mapping else "SQLite under home"
    return Finding("registry", State.OK, f"{len(names)} registered models ({where})")


def champions_finding(settings: Settings) -> Finding:
    """Say which registered models have a champion."""
    if _no_store_yet(settings):
        return Finding("champions", State.NOTE, "none", "colocast up, or colocast train all")
    from pipelines.registering.registry import Registry  # noqa: PLC0415 - MLflow takes seconds to import

    registry = Registry(settings.tracking_uri, settings.artifacts_path)
    champions = {name: registry.champion(name) for name in REGISTERED_MODELS}
    without = [name for name, champion in champions.items() if champion is None]
    found = ", ".join(f"{name} {number}" for name, number in champions.items() if number)
    if without:
        advice = "colocast train all; until then the scheduler falls back and says so"
        return Finding("champions", State.NOTE, f"none for {', '.join(without)}", advice)
    return Finding("champions", State.OK, found)


def joblog_finding(settings: Settings) -> Finding:
    """Judge whether the job log can be read."""
    file = settings.joblog_url.removeprefix("sqlite:///")
    if settings.joblog_url.startswith("sqlite") and not Path(file).exists():
        return Finding("job log", State.NOTE, "no job log yet", "colocast up, or colocast schedule")
    from data.joblog import JobLog  # noqa: PLC0415 - SQLAlchemy, and only where there is a log

    log = JobLog(settings.joblog_url)
    try:
        return Finding("job log", State.OK, f"{log.count()} finished jobs")
    finally:
        log.close()


def telemetry_finding(settings: Settings, mapping: Mapping[str, str], url: str) -> Finding:
    """Say what the Prometheus at `url` has, in which finished jobs are looked up."""
    path = settings.home / "telemetry.yaml"
    config = load_telemetry(path) if path.exists() else TelemetryConfig()
    token = mapping.get("COLOCAST_PROMETHEUS_TOKEN")
    with PrometheusSource(url, token, timeout_s=5.0) as source:
        seen = checked_cards(source, config, time.time())
    measured = sum(bool(one.uuids) for one in seen.signals.values())
    found = f"{measured} of {len(seen.signals)} signals at {url}, {seen.joined} cards with jobs"
    if seen.is_usable:
        return Finding("telemetry", State.OK, found)
    return Finding("telemetry", State.FAIL, found, "colocast telemetry check says what is missing")


def port_finding(name: str, port: int, path: str) -> Finding:
    """Judge a port: ours and answering, free, or taken by something else."""
    part = f"{name} port"
    if answers(f"http://127.0.0.1:{port}{path}"):
        return Finding(part, State.OK, f"{name} answers on {port}")
    try:
        refuse_taken_port(name, port)
    except ServiceStartError as error:
        return Finding(
            part, State.FAIL, str(error), f"or start it with COLOCAST_{name.upper()}_PORT"
        )
    return Finding(part, State.OK, f"{port} is free", "")


def _no_store_yet(settings: Settings) -> bool:
    file = settings.tracking_uri.removeprefix("sqlite:///")
    return settings.tracking_uri.startswith("sqlite") and not Path(file).exists()
