"""A family that nobody has seen appears: how many of its colocated jobs halve its error.

Lucid's audited pairs. One family after the other is left out of training, runs alone once (its
profile is known), and then its pairs finish one by one in a random order, as live jobs do between
two trainings. Its error is the mean absolute log error on those of its pairs that have not run.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.learning_models import OPTIONS, model_alone
from data.loaders import read_any
from features.profiles import profiles
from pipelines.interference.calibration import held_out_estimates, possible_folds
from pipelines.interference.fit import uncalibrated_bundle
from pipelines.interference.training_rows import known_runs, measured_labels, training_data
from pipelines.labelling.audit import audited
from pipelines.labelling.audit_rules import AuditRules
from pipelines.splits import Fold
from serving.inference.bundle import Bundle
from serving.inference.interference import slowdown_estimates
from serving.live.adaptation import PAIR, adapted_bundle

STEPS = (0, 1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 30)
FEWEST_ROWS = 60
FOLDS = 10


def halving(folder: Path, draws: int = 3) -> pd.DataFrame:
    """Return the error after so many colocated jobs: a row a family, draw and number of jobs."""
    runs = read_any(folder / "lucid")["profiling_runs"]
    labels = audited(runs).labels.reset_index(drop=True)
    counts = labels["family"].value_counts()
    return pd.DataFrame(
        row
        for name in counts[counts >= FEWEST_ROWS].index
        for row in _family(runs, labels, str(name), draws)
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
    labels = audited(runs).labels.reset_index(drop=True)
    folds = possible_folds("pair", labels, FOLDS, 0)
    told = held_out_estimates(_bundles(runs, labels, folds), labels, (0,), 0)[0]
    errors = np.abs(np.log(told["value"] / told["slowdown"]))
    means = errors.groupby(labels["family"].iloc[told.index].to_numpy()).mean()
    return means[labels["family"].value_counts().loc[lambda n: n >= FEWEST_ROWS].index]


def can_be_halved(errors: pd.DataFrame, least: pd.Series) -> pd.Series:
    """Return whether half of a family's first error lies above its `least_errors`."""
    first = errors[errors["jobs"] == 0].groupby("family")["error"].mean()
    return least.reindex(first.index) <= first / 2


def _bundles(
    runs: pd.DataFrame, labels: pd.DataFrame, folds: Iterable[Fold]
) -> Iterator[tuple[Fold, Bundle]]:
    for fold in folds:
        known = known_runs(runs, labels, "pair", fold)
        learnt = training_data(known, profiles(runs), AuditRules(), 0)
        yield fold, uncalibrated_bundle(learnt, OPTIONS, 0)


def _family(
    runs: pd.DataFrame, labels: pd.DataFrame, name: str, draws: int
) -> Iterable[dict[str, object]]:
    found, rules = profiles(runs), AuditRules()
    is_of_it = (labels[["family", "neighbour_family"]] == name).any(axis=1).to_numpy()
    fold = Fold(name, np.flatnonzero(~is_of_it), np.flatnonzero(is_of_it))
    known = known_runs(runs, labels, "family", fold)
    others = training_data(known, found, rules, 0).labels
    bundle, _ = model_alone(others, found[found["family"] != name], 0)
    tables = {**bundle.tables, "profiles": found}
    profiled = type(bundle)(bundle.spec, "new", bundle.predict, bundle.estimator, tables)
    mine = labels[labels["family"] == name].reset_index(drop=True)
    for draw in range(draws):
        order = np.random.default_rng(draw).permutation(len(mine))
        for jobs in STEPS:
            seen, rest = mine.iloc[order[:jobs]], mine.iloc[order[max(STEPS) :]]
            stand = measured_labels(runs, known, seen, rules)
            told = slowdown_estimates(adapted_bundle(profiled, stand), rest[PAIR])["value"]
            error = float(np.abs(np.log(told.to_numpy() / rest["slowdown"].to_numpy())).mean())
            yield {"family": name, "draw": draw, "jobs": jobs, "error": error}
