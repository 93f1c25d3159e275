"""How intervals of a new family are made: chosen inside of every fold, then asked.

    python -m benchmarks.quality_intervals --data FOLDER_OF_LUCID [--inside]

In each outer fold, a family, the training rows alone choose: each of their families is left out in
turn, every rule calibrates on what is left, as it would for the fold, and of those that give one
pair of quantiles to a kind of novelty the one with the least interval score of the logarithm
(Gneiting and Raftery, "Strictly Proper Scoring Rules, Prediction, and Estimation", JASA 2007)
answers for the fold. All folds have chosen before the first is asked.
"""

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.interval_rules import RULES, SERVED
from data.importers import lucid
from features.effect_tables import effects_from
from features.effects import effect_covariance
from features.profiles import profiles
from pipelines.conformal import interval_scores, outside_factor
from pipelines.interference.calibration import DRAWS, bundles_without, possible_folds
from pipelines.interference.evaluate import OUTER_FOLDS
from pipelines.interference.few_pairs import Standing, all_stand, measured_positions
from pipelines.interference.fit import ForestOptions, InterferenceData, uncalibrated_bundle
from pipelines.interference.training_rows import known_runs, measured_labels, training_data
from pipelines.judged import worst_share
from pipelines.labelling.audit import audited
from pipelines.labelling.audit_rules import AuditRules
from pipelines.splits import Fold
from serving.forest.compiled import tree_spread
from serving.inference.bundle import Bundle
from serving.inference.interference import NEW_FAMILY, slowdown_estimates
from serving.inference.interference_rows import effect_rows, forest_question
from serving.live.adaptation import adapted_bundle

SEED = 7
OPTIONS = ForestOptions(trees=60)
CHOSEN = "chosen in every fold"
UTILISATION = "gpu_util_mean"


def main() -> None:
    """Print what each rule is worth inside, which each fold chooses, and what they hold outside."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--measured", type=int, default=0, help="pairs of each new job")
    parser.add_argument("--inside", action="store_true", help="ask nothing of the outer folds")
    given = parser.parse_args()
    runs = lucid.read(given.data)["profiling_runs"]
    labels = audited(runs).labels.reset_index(drop=True)
    found = list(worlds(runs, labels))
    inner = [_inside(world.learnt, world.bundle, given.measured) for world in found]
    _print_table("inside", pd.concat(inner))
    best = [_best(rows) for rows in inner]
    for world, name in zip(found, best, strict=True):
        sys.stdout.write(f"{world.fold.name}: {name}\n")
    if given.inside:
        return
    outer = []
    for world, name in zip(found, best, strict=True):
        asked = answers(world.bundle, labels, world.fold, given.measured, world.standing)
        rows = by_rule(world.learnt, world.bundle, asked, given.measured)
        outer += [rows, rows[rows["rule"] == name].assign(rule=CHOSEN)]
    _print_table("outside", pd.concat(outer))


def _best(inner: pd.DataFrame) -> str:
    """Return the rule that is served at no cost and has the least score."""
    scores = inner.groupby("rule", sort=False)["score"].mean()
    return str(scores.loc[list(SERVED)].idxmin())


@dataclass(frozen=True, slots=True)
class World:
    """One outer fold: what it learns from, the model of that, and what measured pairs stand."""

    fold: Fold
    learnt: InterferenceData
    bundle: Bundle
    standing: Standing


def worlds(runs: pd.DataFrame, labels: pd.DataFrame) -> Iterator[World]:
    """Yield each outer fold of the labels of some runs, by family."""
    table, rules = profiles(runs), AuditRules()
    for fold in possible_folds(NEW_FAMILY, labels, OUTER_FOLDS[NEW_FAMILY], SEED):
        known = known_runs(runs, labels, NEW_FAMILY, fold)
        learnt = training_data(known, table, rules, SEED)
        bundle = uncalibrated_bundle(learnt, OPTIONS, SEED)
        yield World(fold, learnt, bundle, partial(measured_labels, runs, known, rules=rules))


def _inside(learnt: InterferenceData, like: Bundle, measured: int) -> pd.DataFrame:
    """Return the bounds of each rule for each family of the training rows, left out in turn."""
    folds = possible_folds(NEW_FAMILY, learnt.labels, OUTER_FOLDS[NEW_FAMILY], SEED)
    parts = []
    for fold, bundle in bundles_without(learnt, folds, OPTIONS, SEED, like):
        rest = learnt.of_rows(fold.train)
        rest = replace(rest, labels=rest.labels.reset_index(drop=True))
        asked = answers(bundle, learnt.labels, fold, measured)
        if len(asked):
            parts.append(by_rule(rest, bundle, asked, measured))
    return pd.concat(parts)


def by_rule(
    learnt: InterferenceData, like: Bundle, asked: pd.DataFrame, measured: int = 0
) -> pd.DataFrame:
    """Return the asked rows with the bounds of each rule, calibrated on what was learnt from."""
    folds = possible_folds(NEW_FAMILY, learnt.labels, OPTIONS.folds, SEED)
    bundles = bundles_without(learnt, folds, OPTIONS, SEED, like)
    held = pd.concat([answers(each, learnt.labels, fold, measured) for fold, each in bundles])
    outside = outside_factor(held["residual"].to_numpy(), held["in_domain"].to_numpy(np.bool_))
    widen = np.where(asked["in_domain"], 1.0, outside)[:, None]
    floor = np.log(like.spec.floor)
    told = []
    for name, rule in RULES.items():
        ends = asked["log_value"].to_numpy()[:, None] + rule(held, asked) * widen
        lower = np.clip(ends[:, 0], floor, asked["log_value"])
        upper = np.maximum(ends[:, 1], asked["log_value"])
        told.append(asked.assign(rule=name, lower=lower, upper=upper))
    rows = pd.concat(told, ignore_index=True)
    observed = rows["log_value"] + rows["residual"]
    score = interval_scores(*(each.to_numpy() for each in (rows["lower"], rows["upper"], observed)))
    return rows.assign(score=score, held=observed.between(rows["lower"], rows["upper"]))


def answers(
    bundle: Bundle,
    labels: pd.DataFrame,
    fold: Fold,
    measured: int,
    standing: Standing = all_stand,
) -> pd.DataFrame:
    """Return what is told of the held-out rows once some pairs of each new job are measured.

    Parameters
    ----------
    bundle : Bundle
        Uncalibrated, of the fold's training rows.
    labels : DataFrame, ``data.schemas.LABELS``
    fold : Fold
    measured : int
        Drawn three times, unless it is 0.
    standing : callable
        Which of them may teach.

    Returns
    -------
    DataFrame
        What a rule reads, and ``in_domain``; empty where every row was shown.
    """
    parts = []
    for draw in range(DRAWS if measured else 1):
        rng = np.random.default_rng(SEED + draw)
        shown = measured_positions(labels, fold, measured, rng)
        moved = adapted_bundle(bundle, standing(labels.iloc[shown])) if measured else bundle
        if len(rest := np.setdiff1d(fold.test, shown)):
            parts.append(_told(moved, labels.iloc[rest]))
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()


def _told(bundle: Bundle, asked: pd.DataFrame) -> pd.DataFrame:
    estimates = slowdown_estimates(bundle, asked)
    learnt, missing = effects_from(bundle.tables)
    table = bundle.tables["profiles"]
    variance = np.diag(effect_covariance(learnt, effect_rows(table, asked, missing)))
    rows = forest_question(bundle, asked).rows.to_numpy(np.float64)
    trees = tree_spread(bundle.estimator, bundle.predict)(rows)[:, 0]
    util = table.groupby("job_key")[UTILISATION].first()
    log_value = np.log(estimates["value"].to_numpy(np.float64))
    return pd.DataFrame(
        {
            "log_value": log_value,
            "residual": np.log(asked["slowdown"].to_numpy(np.float64)) - log_value,
            "family": asked["family"].to_numpy(dtype=str),
            "in_domain": estimates["in_domain"].to_numpy(np.bool_),
            "effect_sd": np.sqrt(np.maximum(variance, 1e-6)),
            "tree_sd": np.maximum(trees, 1e-3),
            "neighbour_util": asked["neighbour_key"].map(util).to_numpy(np.float64),
        }
    )


def _print_table(title: str, found: pd.DataFrame) -> None:
    sys.stdout.write(f"{title}: interval score / coverage / worst tenth of families / width\n")
    for name, rows in found.groupby("rule", sort=False):
        worst = worst_share(rows["held"].to_numpy(), rows["family"].to_numpy(dtype=str))
        width = (rows["upper"] - rows["lower"]).median()
        told = " / ".join(f"{each:.3f}" for each in (rows["held"].mean(), worst, width))
        sys.stdout.write(f"{rows['score'].mean():.4f} / {told}  {name}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
