"""A family that nobody has seen appears: how many of its colocated jobs halve its error.

Lucid's audited pairs. One family after the other is left out of training, runs alone once (its
profile is known), and then its pairs finish one by one in a random order, as live jobs do between
two trainings. Its error is the mean absolute log error on those of its pairs that have not run.
"""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.learning_models import OPTIONS, model_alone
from data.loaders import read_any
from features.profiles import profiles
from pipelines.interference.calibration import (
    bundles_without,
    held_out_estimates,
    possible_folds,
)
from pipelines.interference.fit import InterferenceData
from pipelines.labelling.audit import audited
from serving.inference.interference import slowdown_estimates
from serving.live.adaptation import PAIR, adapted_bundle

STEPS = (0, 1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 30)
FEWEST_ROWS = 60
FOLDS = 10


def halving(folder: Path, draws: int = 3) -> pd.DataFrame:
    """Return the error after so many colocated jobs: a row a family, draw and number of jobs."""
    runs = read_any(folder / "lucid")["profiling_runs"]
    audit, found = audited(runs), profiles(runs)
    family = dict(zip(found["job_key"], found["family"], strict=True))
    labels = audit.labels
    counts = labels["family"].value_counts()
    return pd.DataFrame(
        row
        for name in counts[counts >= FEWEST_ROWS].index
        for row in _family(labels, found, str(name), family, draws)
    )


def jobs_until_halved(errors: pd.DataFrame) -> pd.Series:
    """Return the smallest number of jobs after which a family's error, over draws, is half."""
    means = errors.pivot_table(index="family", columns="jobs", values="error")
    halved = means.le(means[0] / 2, axis="index")
    return halved.apply(lambda row: float(row[row].index.min()) if row.any() else np.inf, axis=1)


def jobs_until_half_learnt(errors: pd.DataFrame) -> pd.Series:
    """Return the same of the error beyond what is left after the most jobs: the noise stays."""
    means = errors.pivot_table(index="family", columns="jobs", values="error")
    half = means.le((means[0] + means[max(STEPS)]) / 2, axis="index")
    return half.apply(lambda row: float(row[row].index.min()), axis=1)


def least_errors(folder: Path) -> pd.Series:
    """Return each family's error where all other pairs are known: no number of jobs beats it."""
    runs = read_any(folder / "lucid")["profiling_runs"]
    audit = audited(runs)
    labels = audit.labels.reset_index(drop=True)
    data = InterferenceData(labels, profiles(runs), audit.noise.floor)
    folds = possible_folds("pair", labels, FOLDS, 0)
    told = held_out_estimates(bundles_without(data, folds, OPTIONS, 0), labels, (0,), 0)[0]
    errors = np.abs(np.log(told["value"] / told["slowdown"]))
    means = errors.groupby(labels["family"].iloc[told.index].to_numpy()).mean()
    return means[labels["family"].value_counts().loc[lambda n: n >= FEWEST_ROWS].index]


def can_be_halved(errors: pd.DataFrame, least: pd.Series) -> pd.Series:
    """Return whether half of a family's first error lies above its `least_errors`."""
    first = errors[errors["jobs"] == 0].groupby("family")["error"].mean()
    return least.reindex(first.index) <= first / 2


def _family(
    labels: pd.DataFrame, found: pd.DataFrame, name: str, family: dict[str, str], draws: int
) -> Iterable[dict[str, object]]:
    beside = labels["neighbour_key"].map(family)
    others = labels[(labels["family"] != name) & (beside != name)]
    known = found[found["family"] != name]
    bundle, _ = model_alone(others, known, 0)
    tables = {**bundle.tables, "profiles": found}
    profiled = type(bundle)(bundle.spec, "new", bundle.predict, bundle.estimator, tables)
    mine = labels[labels["family"] == name].reset_index(drop=True)
    for draw in range(draws):
        order = np.random.default_rng(draw).permutation(len(mine))
        for jobs in STEPS:
            seen, rest = mine.iloc[order[:jobs]], mine.iloc[order[max(STEPS) :]]
            told = slowdown_estimates(adapted_bundle(profiled, seen), rest[PAIR])["value"]
            error = float(np.abs(np.log(told.to_numpy() / rest["slowdown"].to_numpy())).mean())
            yield {"family": name, "draw": draw, "jobs": jobs, "error": error}
