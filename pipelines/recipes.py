"""How each model is made from tables and a seed alone, so that it can be made again.

A recipe reads nothing but its arguments. What it was given is kept beside the version
(``report.Origin``), hence ``colocast lineage NAME/VERSION --verify``.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace

import pandas as pd

from features.pairs import profile_positions
from features.profiles import profiles
from pipelines.labelling.audit import Audit, audited
from pipelines.registering.report import Origin, TrainingReport
from serving.inference.bundle import Bundle

Trained = list[tuple[Bundle, TrainingReport]]
Tables = Mapping[str, pd.DataFrame]


def made(recipe: str, tables: Tables, seed: int) -> Trained:
    """Return the models that a recipe makes, each with a report that says what from.

    Parameters
    ----------
    recipe : str
        A key of ``RECIPES``.
    tables : mapping of str to DataFrame
        ``profiling_runs``, ``jobs`` or ``memory_runs``, as ``data.schemas`` describes them.
    seed : int

    Raises
    ------
    SettingError
        If there are too few rows.
    """
    origin = Origin(recipe, seed, dict(tables))
    return [(b, replace(r, origin=origin)) for b, r in RECIPES[recipe](tables, seed)]


def interference(tables: Tables, seed: int) -> Trained:
    """Train the interference model on audited labels of profiled jobs."""
    from pipelines.interference.training import train_interference  # noqa: PLC0415 - one model at a time

    labels, found, audit = _profiled_labels(tables["profiling_runs"])
    return [train_interference(labels, found, seed, audit)]


def interference_values(tables: Tables, seed: int) -> Bundle:
    """Return the model that `interference` makes, with its values and without intervals."""
    from pipelines.interference import training  # noqa: PLC0415 - one model at a time

    labels, found, audit = _profiled_labels(tables["profiling_runs"])
    return training.interference_values(labels, found, seed, audit)


def _profiled_labels(runs: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame, Audit]:
    audit, found = audited(runs), profiles(runs)
    # A neighbour that never ran alone has no profile to learn from yet.
    at = profile_positions(found, audit.labels)
    return audit.labels.loc[(at[:, 0] >= 0) & (at[:, 1] >= 0)], found, audit


def runtime(tables: Tables, seed: int) -> Trained:
    """Train both runtime models on finished jobs."""
    from pipelines.runtime.training import train_runtime  # noqa: PLC0415 - one model at a time

    cluster, user, cluster_report, user_report = train_runtime(tables["jobs"], seed)
    return [(cluster, cluster_report), (user, user_report)]


def memory(tables: Tables, seed: int) -> Trained:
    """Train the memory regressor on runs whose structure and peak are known."""
    from pipelines.memory.training import train_memory  # noqa: PLC0415 - one model at a time

    return [train_memory(tables["memory_runs"], seed)]


def demand(tables: Tables, seed: int) -> Trained:
    """Train the demand forest on runs whose structure and signals are known."""
    from pipelines.demand.training import train_demand  # noqa: PLC0415 - one model at a time

    return [train_demand(tables["memory_runs"], seed)]


RECIPES: Mapping[str, Callable[[Tables, int], Trained]] = {
    "interference": interference,
    "runtime": runtime,
    "memory": memory,
    "demand": demand,
}
"""By what ``colocast train`` calls them; ``runtime`` makes two registered models."""
