"""By what amounts a family is told that was not learnt: chosen inside of every fold, then asked.

    python -m benchmarks.quality_amounts --data FOLDER_OF_GPUMEMNET [--split configuration]

By family, learning one and being asked about the other is played inside of the learnt one: by each
column that any candidate is told by, its lowest third is learnt and its highest asked, and back, as
if they were two families (``pipelines.demand.calibration.thirds_apart``). By configuration, where
all that is known is shown of a job whatever the amounts, the training rows are held out part by
part in the same way. The candidate with the least squared error there answers for the fold, in
standard deviations of each signal in its training rows; each trial and signal counts once.
"""

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.nested import CHOSEN, preferred
from data.importers import gpumemnet
from features.structure import COMPUTE_COLUMNS, STRUCTURE_COLUMNS
from pipelines.demand.calibration import thirds_apart
from pipelines.demand.fit import (
    DemandOptions,
    learnt_signals,
    measured_signals,
    uncalibrated_demand_bundle,
)
from pipelines.metrics import r2
from pipelines.splits import Fold, memory_configuration_folds, memory_family_folds
from serving.inference.demand import Signal, demand_features, scaled_signals

SEED = 7
FOLDS = 5
FAMILIES = 20
OPTIONS = DemandOptions()

TWO = ("batch_multiply_adds_log", "batch_activations_log")
TEN = (
    *COMPUTE_COLUMNS,
    "batch_flops_log",  # the weights, for each sample of a batch
    "dense_parameters_log",
    "activations_log",
    "largest_activation_mib",
    "batch_size",
)
CANDIDATES: Mapping[str, Sequence[str]] = {
    "five (shipped)": COMPUTE_COLUMNS,
    "two": TWO,
    "ten": TEN,
    "all of the structure": STRUCTURE_COLUMNS,
}


@dataclass(frozen=True, slots=True)
class Split:
    """How runs are held out, and the trials inside of what is learnt.

    Attributes
    ----------
    folds, trials : callable
        From runs to folds.
    is_strange : bool
        Whether what is asked about counts as of a family that was not learnt.
    """

    folds: Callable[[pd.DataFrame], list[Fold]]
    trials: Callable[[pd.DataFrame], list[Fold]]
    is_strange: bool


def main() -> None:
    """Print which candidate each fold chose, and R² of every signal by each throughout."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--split", choices=SPLITS, default="family")
    given = parser.parse_args()
    runs = gpumemnet.read(given.data)["memory_runs"]
    for name, found in held_out(runs, given.split).items():
        told = "; ".join(f"{signal} {score:.3f}" for signal, score in found.items())
        sys.stdout.write(f"{told}  {name}\n")


def held_out(memory_runs: pd.DataFrame, split: str) -> dict[str, dict[str, float]]:
    """Return R² of each signal by each candidate, and by those that are `CHOSEN` in each fold."""
    runs, signals = measured_signals(memory_runs)
    by = SPLITS[split]
    parts = [chosen(runs, signals, fold, by) for fold in by.folds(runs)]
    told = {name: pd.concat([part[name] for part in parts]) for name in (*CANDIDATES, CHOSEN)}
    return {name: scores(runs.loc[rows.index], rows) for name, rows in told.items()}


def chosen(
    runs: pd.DataFrame, signals: Sequence[Signal], fold: Fold, split: Split
) -> dict[str, pd.DataFrame]:
    """Return the answers of one fold by each candidate, and by the one its own rows choose.

    Returns
    -------
    dict of candidate to DataFrame
        As `answers`.
    """
    known = runs.iloc[fold.train].reset_index(drop=True)
    own = learnt_signals(signals, known)
    errors = [
        squared_errors(known, trial, own, is_strange=split.is_strange)
        for trial in split.trials(known)
    ]
    learnt = ", ".join(sorted(known["family"].astype("str").unique()))
    best = preferred(f"{fold.name}, of {learnt}", pd.DataFrame(errors).mean())
    asked = runs.iloc[fold.test]
    told = {
        name: answers(known, asked, own, amounts, is_strange=split.is_strange)
        for name, amounts in CANDIDATES.items()
    }
    return {**told, CHOSEN: told[best]}


def squared_errors(
    runs: pd.DataFrame, trial: Fold, signals: Sequence[Signal], *, is_strange: bool
) -> dict[str, float]:
    """Return each candidate's mean squared error in a trial, in the scales of `signals`."""
    learnt, asked = runs.iloc[trial.train], runs.iloc[trial.test]
    observed, errors = scaled_signals(asked, signals), {}
    for name, amounts in CANDIDATES.items():
        told = answers(learnt, asked, signals, amounts, is_strange=is_strange)
        errors[name] = float(np.square(scaled_signals(told, signals) - observed).mean())
    return errors


def answers(
    learnt: pd.DataFrame,
    asked: pd.DataFrame,
    signals: Sequence[Signal],
    amounts: Sequence[str],
    *,
    is_strange: bool,
) -> pd.DataFrame:
    """Return what a forest of some runs tells of others, in the unit of each signal.

    Returns
    -------
    DataFrame of shape (n_asked, n_signals), indexed as `asked`
    """
    own = learnt_signals(signals, learnt)
    bundle = uncalibrated_demand_bundle(learnt, own, OPTIONS, SEED, amounts)
    strange = pd.Series(data=is_strange, index=asked.index)
    rows = demand_features(asked, bundle.spec.features, strange, amounts)
    scaled = bundle.predict(rows.to_numpy(np.float64)).reshape(len(asked), len(own))
    told = {
        one.name: np.expm1(values * one.scale) if one.is_log else values * one.scale
        for one, values in zip(own, scaled.T, strict=True)
    }
    return pd.DataFrame(told, index=asked.index)


def trials_of_a_family(runs: pd.DataFrame) -> list[Fold]:
    """Return its ends by every column that a candidate is told by, each pair of them once."""
    columns = dict.fromkeys(name for amounts in CANDIDATES.values() for name in amounts)
    folds = thirds_apart(runs, tuple(columns))
    apart = {(fold.train.tobytes(), fold.test.tobytes()): fold for fold in reversed(folds)}
    return list(apart.values())[::-1]


def scores(observed: pd.DataFrame, told: pd.DataFrame) -> dict[str, float]:
    """Return R² of each signal, NaN where it never differs.

    Examples
    --------
    >>> scores(pd.DataFrame({"a": [1.0, 2.0, 3.0]}), pd.DataFrame({"a": [1.0, 2.0, 2.0]}))
    {'a': 0.5}
    """
    found = {
        name: r2(*(each[name].to_numpy(np.float64) for each in (observed, told))) for name in told
    }
    return {name: float("nan") if score is None else score for name, score in found.items()}


by_configuration = partial(memory_configuration_folds, folds=FOLDS, seed=SEED)
SPLITS: Mapping[str, Split] = {
    "family": Split(
        partial(memory_family_folds, folds=FAMILIES, seed=SEED), trials_of_a_family, is_strange=True
    ),
    "configuration": Split(by_configuration, by_configuration, is_strange=False),
}


if __name__ == "__main__":
    main()
