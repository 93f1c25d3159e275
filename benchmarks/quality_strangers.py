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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from data.importers import gpumemnet
from features.structure import COMPUTE_COLUMNS, structure_features
from pipelines.conformal import interval_scores, outside_factor, residual_quantiles
from pipelines.demand.calibration import REACHES, thirds_apart
from pipelines.demand.fit import (
    DemandOptions,
    held_out_demand,
    learnt_signals,
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
PARTS = 5
CHOSEN = "chosen for both"

KNOWN, TREES = "configurations", "configurations in what the trees differ by"
FIFTHS, THIRDS = "fifths", "thirds apart"


@dataclass(frozen=True, slots=True)
class Rule:
    """Some errors so many times, around what is told; with `ranged`, the learnt range besides.

    Errors are of held-out configurations (`KNOWN`; `TREES`: in what the trees differ by), of fifths
    that the other four tell of, or of thirds that the third at the other end tells of.
    """

    times: float = 0.0
    errors: str = KNOWN
    ranged: bool = False


def multiples(errors: str, *times: float) -> dict[str, Rule]:
    """Return rules by name."""
    return {f"{each:.0f} times the errors of {errors}": Rule(each, errors) for each in times}


SERVED: Mapping[str, Rule] = {
    name: rule
    for reach in REACHES
    for name, rule in multiples(TREES if reach.by_trees else KNOWN, reach.times).items()
}
RULES: Mapping[str, Rule] = {
    **SERVED,
    **multiples(KNOWN, 1, 2, 32),
    "learnt range": Rule(ranged=True),
    "learnt range or 4 times the errors (shipped before)": Rule(4.0, ranged=True),
    "learnt range or 8 times the errors": Rule(8.0, ranged=True),
    **multiples(FIFTHS, 1, 2, 4),
    "learnt range or errors of fifths": Rule(1.0, FIFTHS, ranged=True),
    **multiples(THIRDS, 1, 2, 4),
    "learnt range or errors of thirds apart": Rule(1.0, THIRDS, ranged=True),
}


@dataclass(frozen=True, slots=True)
class Told:
    """What is known of n models of a family that was not learnt, and of k signals.

    All in standard deviations of each signal.

    Attributes
    ----------
    value : array of shape (n, k)
    most : array of shape (k,)
        Where each signal ends.
    reaches : dict of errors to array of shape (2, k) or (2, n, k)
        Between which nine tenths of them lie, as far as they reach about each model.
    learnt : array of shape (2, k)
        Between which nine tenths of the learnt runs lie.
    """

    value: Floats
    most: Floats
    reaches: Mapping[str, Floats]
    learnt: Floats

    def ends(self, rule: Rule) -> tuple[Floats, Floats]:
        """Return lower and upper ends around the value, where the signal can be."""
        low, high = (self.value + rule.times * end for end in self.reaches[rule.errors])
        if rule.ranged:
            low, high = np.minimum(low, self.learnt[0]), np.maximum(high, self.learnt[1])
        low, high = np.minimum(low, self.value), np.maximum(high, self.value)
        return np.clip(low, 0.0, self.most), np.clip(high, 0.0, self.most)


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
        known, signals[fold.name] = measured_signals(runs.iloc[fold.train])
        trials = thirds_apart(known)
        inner = pd.concat([judged(known, trial, signals[fold.name]) for trial in trials])
        _print_table(f"inside of {known['family'].iloc[0]}", inner)
        best[fold.name] = str(_scores(inner)[list(SERVED)].idxmin())
        sys.stdout.write(f"chosen: {best[fold.name]}\n")
        sys.stdout.flush()
    if given.inside:
        return
    outer = []
    for fold in folds:
        rows = judged(runs, fold, signals[fold.name])
        outer += [rows, rows[rows["rule"] == best[fold.name]].assign(rule=CHOSEN)]
    _print_table("outside", pd.concat(outer))


def judged(runs: pd.DataFrame, fold: Fold, signals: Sequence[Signal]) -> pd.DataFrame:
    """Return what each rule holds of what a fold asks, as a family of which nothing is known.

    Returns
    -------
    DataFrame
        A row for each asked run, signal and rule: ``trial``, ``signal``, ``rule``, ``family``,
        ``held`` (bool) and ``score``, in standard deviations of the signal.
    """
    asked = runs.iloc[fold.test]
    told = told_of(runs.iloc[fold.train].reset_index(drop=True), asked, signals)
    observed = scaled_signals(asked, signals)
    facts = {
        "trial": fold.name,
        "family": np.repeat(asked["family"].to_numpy(dtype=str), len(signals)),
        "signal": np.tile([signal.name for signal in signals], len(asked)),
    }
    parts = []
    for name, rule in RULES.items():
        lower, upper = told.ends(rule)
        held = (observed >= lower) & (observed <= upper)
        score = interval_scores(lower, upper, observed)
        found = {"rule": name, "held": held.ravel(), "score": score.ravel()}
        parts.append(pd.DataFrame({**facts, **found}))
    return pd.concat(parts, ignore_index=True)


def told_of(learnt: pd.DataFrame, asked: pd.DataFrame, signals: Sequence[Signal]) -> Told:
    """Return what runs of one family tell of models of another.

    Parameters
    ----------
    learnt, asked : DataFrame, ``data.schemas.MEMORY_RUNS``
        Whatever their families, those of `learnt` count as one, and of `asked` as another.
    signals : sequence of Signal
    """
    learnt, asked = learnt.assign(family="learnt"), asked.assign(family="asked")
    folds = memory_configuration_folds(learnt, OPTIONS.folds, SEED)
    errors, spreads, in_domain = _held_out(learnt, folds, signals)
    own = learnt_signals(signals, learnt)
    bundle = uncalibrated_demand_bundle(learnt, own, OPTIONS, SEED)
    trees = demand_spreads(bundle, asked) * [
        each.scale / one.scale for each, one in zip(own, signals, strict=True)
    ]
    rows = demand_features(asked, bundle.spec.features, pd.Series(data=True, index=asked.index))
    beyond = outside_factor((errors / spreads).ravel(), in_domain.ravel())
    widen = np.where(inside(bundle.spec, rows), 1.0, beyond)[:, None]
    told = demand_estimates_of_rows(bundle, asked)
    reaches = {
        KNOWN: _quantiles(errors)[:, None] * widen,
        TREES: _quantiles(errors / spreads)[:, None] * trees * widen,
        FIFTHS: _quantiles(_stranger_errors(learnt, _fifths(learnt), signals)),
        THIRDS: _quantiles(_stranger_errors(learnt, thirds_apart(learnt), signals)),
    }
    return Told(
        scaled_signals(pd.DataFrame({name: told[name]["value"] for name in told}), signals),
        np.array([np.inf if each.is_log else 1 / each.scale for each in signals]),
        reaches,
        _quantiles(scaled_signals(learnt, signals)),
    )


def _held_out(
    runs: pd.DataFrame, folds: Sequence[Fold], signals: Sequence[Signal]
) -> tuple[Floats, Floats, np.ndarray]:
    """Return errors of held-out runs, what trees differ by and whether runs are inside: (n, k)."""
    found = held_out_demand(runs, signals, folds, OPTIONS, SEED)
    rows = [found[signal.name] for signal in signals]
    errors = [scaled_residuals(each, one) for each, one in zip(rows, signals, strict=True)]
    spreads = np.column_stack([each["spread"].to_numpy(np.float64) for each in rows])
    in_domain = np.column_stack([each["in_domain"].to_numpy(np.bool_) for each in rows])
    return np.column_stack(errors), spreads, in_domain


def _stranger_errors(
    runs: pd.DataFrame, folds: Iterable[Fold], signals: Sequence[Signal]
) -> Floats:
    """Return the errors about parts of one family, each asked as if another."""
    parts = []
    for fold in folds:
        named = runs.assign(family=np.where(np.isin(np.arange(len(runs)), fold.test), "b", "a"))
        parts.append(_held_out(named, [fold], signals)[0])
    return np.concatenate(parts)


def _quantiles(columns: Floats) -> Floats:
    """Return between what nine tenths of each column lie, shape (2, k)."""
    return np.transpose([residual_quantiles(column) for column in columns.T])


def _fifths(runs: pd.DataFrame) -> Iterator[Fold]:
    """Yield each fifth by each amount of computation, asked of the other four."""
    ranks = structure_features(runs)[list(COMPUTE_COLUMNS)].rank(pct=True)
    for name in ranks:
        fifth = np.ceil(ranks[name].to_numpy(np.float64) * PARTS)
        for at in range(1, PARTS + 1):
            fold = Fold(f"{name} {at}", np.flatnonzero(fifth != at), np.flatnonzero(fifth == at))
            if len(fold.train) and len(fold.test):
                yield fold


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


if __name__ == "__main__":
    main()
