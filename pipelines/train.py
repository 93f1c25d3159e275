"""Train models from what an installation holds, register them, and promote first versions."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from data.settings import Settings
from pipelines.initial_tables import initial_jobs, initial_memory_runs, initial_runs
from pipelines.recipes import Trained, made
from pipelines.registering.registry import CHALLENGER, CHAMPION, Registry

SEED = 7


@dataclass(frozen=True, slots=True)
class Registered:
    """One version that training made.

    Attributes
    ----------
    name, version : str
    alias : str
        What points at it now: ``champion`` or ``challenger``.
    metrics : mapping of str to float
        Of its held-out splits.
    """

    name: str
    version: str
    alias: str
    metrics: Mapping[str, float]


def interference(settings: Settings, data: Path | None) -> Trained:
    """Train the interference forest on audited labels."""
    return made("interference", {"profiling_runs": initial_runs(settings, data)}, SEED)


def runtime(settings: Settings, data: Path | None) -> Trained:
    """Train both runtime models on finished jobs."""
    return made("runtime", {"jobs": initial_jobs(settings, data)}, SEED)


def memory(settings: Settings, data: Path | None) -> Trained:
    """Train the memory regressor on runs whose structure and peak are known."""
    return made("memory", {"memory_runs": initial_memory_runs(settings, data)}, SEED)


def demand(settings: Settings, data: Path | None) -> Trained:
    """Train the demand forest on runs whose structure and signals are known."""
    return made("demand", {"memory_runs": initial_memory_runs(settings, data)}, SEED)


TRAINERS: Mapping[str, Callable[[Settings, Path | None], Trained]] = {
    "interference": interference,
    "runtime": runtime,
    "memory": memory,
    "demand": demand,
}
"""What ``colocast train`` can be asked for; ``runtime`` is two registered models."""

REGISTERED_NAMES: Mapping[str, tuple[str, ...]] = {
    "interference": ("colocast-interference",),
    "runtime": ("colocast-runtime-cluster", "colocast-runtime-user"),
    "memory": ("colocast-memory",),
    "demand": ("colocast-demand",),
}


def registered(registry: Registry, trained: Trained, *, promote: bool | None) -> list[Registered]:
    """Register trained models, and point an alias at each.

    Parameters
    ----------
    registry : Registry
    trained : list of (Bundle, TrainingReport)
    promote : bool, optional
        Whether to make each the champion. By default only where there is none; another becomes
        ``challenger``, for a champion may have learnt from production since.

    Raises
    ------
    RegistryError
        If the registry cannot be written.
    """
    found = []
    for bundle, report in trained:
        name = bundle.spec.name
        version = registry.register(bundle, report)
        is_champion = registry.champion(name) is None if promote is None else promote
        alias = CHAMPION if is_champion else CHALLENGER
        point = registry.promote if is_champion else partial(registry.set_alias, alias=alias)
        point(name=name, version=version)
        found.append(Registered(name, version, alias, report.metrics))
    return found
