"""Intervals of a family beside the only one that demand was learnt of: chosen inside, then asked.

    python -m benchmarks.quality_strangers --data FOLDER_OF_GPUMEMNET [--inside]

Learning one family and being asked about the other is played inside of the learnt one: by each
amount of computation its lowest third is learnt and its highest asked, and back, as if they were
two families. Of the rules that cost no more than to calibrate what is known, that with the least
interval score there (Gneiting and Raftery, "Strictly Proper Scoring Rules, Prediction, and
Estimation", JASA 2007; in standard deviations of the signal, each trial and signal counting once)
answers for the other family, as in training (``pipelines.demand.calibration``). Both families have
chosen before any is asked.
"""

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from data.importers import gpumemnet
from features.structure import COMPUTE_COLUMNS, structure_features
from pipelines.conformal import (
    interval_scores,
    outside_factor,
    residual_quantiles,
)
from pipelines.demand.calibration import REACHES, thirds_apart
from pipelines.demand.fit import (
    DemandOptions,
    held_out_demand,
    measured_signals,
    scaled_residuals,
    uncalibrated_demand_bundle,
)
from pipelines.splits import Fold, memory_configuration_folds, memory_family_folds
from serving.inference.bundle import Floats, inside
from serving.inference.demand import (
    Signal,
    demand_estimates_of_rows,
    demand_features,
    demand_spreads,
    scaled_signals,
)

SEED = 7
OPTIONS = DemandOptions()
FIFTHS = 5
CHOSEN = "chosen for both"

Quantiles = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Learnt:
    """What one family tells of a signal, all in standard deviations of the signal.

    Attributes
    ----------
    known, trees : array of shape (n,)
        Errors of held-out configurations, and by what the trees differed about each.
    fifths, thirds : array
        Errors of fifths that the other four tell of, and of thirds that the third at the other
        end tells of, by each amount of computation.
    ends : tuple of float
        Between which nine tenths of the learnt runs lie.
    """

    known: Floats
    trees: Floats
    fifths: Floats
    thirds: Floats
    ends: Quantiles


@dataclass(frozen=True, slots=True)
class Asked:
    """What is told of a signal of n models, in standard deviations of the signal.

    Attributes
    ----------
    value, trees, widen : array of shape (n,)
        The answer, by what the trees differ, and how much wider the model makes an interval of
        what lies beyond the ranges that it learnt.
    """

    value: Floats
    trees: Floats
    widen: Floats


Ends = tuple[Floats, Floats]
Rule = Callable[[Learnt, Asked], Ends]


def by_known(times: float) -> Rule:
    """Return the rule of errors of held-out configurations, `times` as wide."""

    def rule(learnt: Learnt, asked: Asked) -> Ends:
        low, high = (times * end * asked.widen for end in residual_quantiles(learnt.known))
        return asked.value + low, asked.value + high

    return rule


def by_trees(times: float) -> Rule:
    """Return the rule of the same errors in what the trees differ by, `times` as wide."""

    def rule(learnt: Learnt, asked: Asked) -> Ends:
        units = times * asked.trees * asked.widen
        low, high = residual_quantiles(learnt.known / learnt.trees)
        return asked.value + low * units, asked.value + high * units

    return rule


def by_strangers(errors: Callable[[Learnt], Floats], times: float = 1.0) -> Rule:
    """Return the rule of errors about parts that were held out as strangers, `times` as wide."""

    def rule(learnt: Learnt, asked: Asked) -> Ends:
        low, high = (times * end for end in residual_quantiles(errors(learnt)))
        return asked.value + low, asked.value + high

    return rule


def by_range(learnt: Learnt, asked: Asked) -> Ends:
    """Return between what nine tenths of the learnt runs lie."""
    return np.full_like(asked.value, learnt.ends[0]), np.full_like(asked.value, learnt.ends[1])


def wider(first: Rule, second: Rule) -> Rule:
    """Return the rule whose ends are the outer ones of two rules."""

    def rule(learnt: Learnt, asked: Asked) -> Ends:
        one, other = first(learnt, asked), second(learnt, asked)
        return np.minimum(one[0], other[0]), np.maximum(one[1], other[1])

    return rule


BY_FIFTHS = partial(by_strangers, lambda learnt: learnt.fifths)
BY_THIRDS = partial(by_strangers, lambda learnt: learnt.thirds)
SERVED: Mapping[str, Rule] = {
    f"{reach.times:.0f} times the errors of configurations"
    + (" in what the trees differ by" if reach.by_trees else ""): (
        by_trees if reach.by_trees else by_known
    )(reach.times)
    for reach in REACHES
}
RULES: Mapping[str, Rule] = {
    **SERVED,
    **{f"{times:.0f} times the errors of configurations": by_known(times) for times in (1, 2, 32)},
    "learnt range": by_range,
    "learnt range or 4 times the errors (shipped before)": wider(by_range, by_known(4.0)),
    "learnt range or 8 times the errors": wider(by_range, by_known(8.0)),
    **{f"{times} times the errors of fifths": BY_FIFTHS(times) for times in (1, 2, 4)},
    "learnt range or errors of fifths": wider(by_range, BY_FIFTHS(1.0)),
    **{f"{times} times the errors of thirds apart": BY_THIRDS(times) for times in (1, 2, 4)},
    "learnt range or errors of thirds apart": wider(by_range, BY_THIRDS(1.0)),
}


def main() -> None:
    """Print what each rule is worth inside, which each fold chooses, and what they hold outside."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--inside", action="store_true", help="ask nothing of the other family")
    given = parser.parse_args()
    runs, _ = measured_signals(gpumemnet.read(given.data)["memory_runs"])
    folds = memory_family_folds(runs, len(runs), SEED)
    best, signals = {}, {}
    for fold in folds:
        known, own = measured_signals(runs.iloc[fold.train])
        signals[fold.name] = own
        inner = pd.concat([asked_by(known, trial, own) for trial in thirds_apart(known)])
        _print_table(f"inside of {known['family'].iloc[0]}", inner)
        best[fold.name] = str(_scores(inner)[list(SERVED)].idxmin())
        sys.stdout.write(f"chosen: {best[fold.name]}\n")
        sys.stdout.flush()
    if given.inside:
        return
    outer = []
    for fold in folds:
        rows = asked_by(runs, fold, signals[fold.name])
        outer += [rows, rows[rows["rule"] == best[fold.name]].assign(rule=CHOSEN)]
    _print_table("outside", pd.concat(outer))


def asked_by(runs: pd.DataFrame, fold: Fold, signals: Sequence[Signal]) -> pd.DataFrame:
    """Return the bounds of each rule for what a fold asks, as a family of which nothing is known.

    Returns
    -------
    DataFrame
        A row for each asked run, signal and rule: ``trial``, ``signal``, ``rule``, ``family``,
        ``held`` (bool), ``width`` and ``score``, in standard deviations of the signal.
    """
    learnt = runs.iloc[fold.train].assign(family="learnt").reset_index(drop=True)
    asked = runs.iloc[fold.test].assign(family="asked")
    facts = {"trial": fold.name, "family": runs["family"].iloc[fold.test].to_numpy(dtype=str)}
    told, widest = learnt_of(learnt, signals)
    parts = []
    for (signal, one), of_family in zip(_told(learnt, asked, signals, widest), told, strict=True):
        observed = scaled_signals(asked, [signal])[:, 0]
        for name, rule in RULES.items():
            lower, upper = _bounded(rule(of_family, one), one.value, signal)
            found = {
                "signal": signal.name,
                "rule": name,
                "held": (observed >= lower) & (observed <= upper),
                "width": upper - lower,
                "score": interval_scores(lower, upper, observed),
            }
            parts.append(pd.DataFrame({**facts, **found}))
    return pd.concat(parts, ignore_index=True)


def _told(
    learnt: pd.DataFrame, asked: pd.DataFrame, signals: Sequence[Signal], widest: float
) -> Iterator[tuple[Signal, Asked]]:
    """Yield what the model tells of each signal."""
    bundle = uncalibrated_demand_bundle(learnt, signals, OPTIONS, SEED)
    strange = pd.Series(data=True, index=asked.index)
    rows = demand_features(asked, bundle.spec.features, strange)
    widen = np.where(inside(bundle.spec, rows), 1.0, widest)
    estimates, trees = demand_estimates_of_rows(bundle, asked), demand_spreads(bundle, asked)
    for at, signal in enumerate(signals):
        values = pd.DataFrame({signal.name: estimates[signal.name]["value"]})
        yield signal, Asked(scaled_signals(values, [signal])[:, 0], trees[:, at], widen)


def _bounded(ends: Ends, value: Floats, signal: Signal) -> Ends:
    """Return ends around the value, where the signal can be."""
    most = np.inf if signal.is_log else 1 / signal.scale
    lower, upper = np.minimum(ends[0], value), np.maximum(ends[1], value)
    return np.clip(lower, 0.0, most), np.clip(upper, 0.0, most)


def _scores(found: pd.DataFrame) -> pd.Series:
    """Return each rule's interval score; each trial and signal counts once."""
    each = found.groupby(["rule", "trial", "signal"], sort=False)["score"].mean()
    return each.groupby("rule", sort=False).mean()


def _print_table(title: str, found: pd.DataFrame) -> None:
    sys.stdout.write(f"{title}: interval score; coverage / worse family by signal\n")
    scores = _scores(found)
    for name, rows in found.groupby("rule", sort=False):
        told = []
        for _, of_signal in rows.groupby("signal", sort=False):
            each = of_signal["held"].groupby(of_signal["family"]).mean()
            told.append(f"{of_signal['held'].mean():.3f} / {each.min():.3f}")
        sys.stdout.write(f"{scores[name]:.3f}; {', '.join(told)}  {name}\n")
    sys.stdout.flush()


def learnt_of(runs: pd.DataFrame, signals: Sequence[Signal]) -> tuple[list[Learnt], float]:
    """Return what one family tells of each signal, and how much wider its outside is.

    Parameters
    ----------
    runs : DataFrame, ``data.schemas.MEMORY_RUNS``
        Of one family.
    signals : sequence of Signal
    """
    folds = memory_configuration_folds(runs, OPTIONS.folds, SEED)
    known = held_out_demand(runs, signals, folds, OPTIONS, SEED)
    rows = pd.concat(known.values())
    errors = [scaled_residuals(known[signal.name], signal) for signal in signals]
    trees = [known[signal.name]["spread"].to_numpy(np.float64) for signal in signals]
    in_units = np.concatenate(errors) / np.concatenate(trees)
    outside = outside_factor(in_units, rows["in_domain"].to_numpy(np.bool_))
    fifths, thirds = (_stranger_errors(runs, cut, signals) for cut in (_fifths, thirds_apart))
    ends = [residual_quantiles(column) for column in scaled_signals(runs, signals).T]
    return [
        Learnt(*each) for each in zip(errors, trees, fifths, thirds, ends, strict=True)
    ], outside


def _stranger_errors(
    runs: pd.DataFrame,
    cut: Callable[[pd.DataFrame], Iterable[Fold]],
    signals: Sequence[Signal],
) -> list[Floats]:
    """Return the errors about parts of one family, asked as if another, signal by signal."""
    parts = []
    for fold in cut(runs):
        named = runs.assign(family=np.where(np.isin(np.arange(len(runs)), fold.test), "b", "a"))
        told = held_out_demand(named, signals, [fold], OPTIONS, SEED)
        parts.append([scaled_residuals(told[signal.name], signal) for signal in signals])
    return [np.concatenate(each) for each in zip(*parts, strict=True)]


def _fifths(runs: pd.DataFrame) -> Iterator[Fold]:
    """Yield each fifth by each amount of computation, asked of the other four."""
    ranks = structure_features(runs)[list(COMPUTE_COLUMNS)].rank(pct=True)
    for name in ranks:
        fifth = np.ceil(ranks[name].to_numpy(np.float64) * FIFTHS)
        for at in range(1, FIFTHS + 1):
            fold = Fold(f"{name} {at}", np.flatnonzero(fifth != at), np.flatnonzero(fifth == at))
            if len(fold.train) and len(fold.test):
                yield fold


if __name__ == "__main__":
    main()
