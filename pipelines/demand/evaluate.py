"""Measure the demand model on configurations and families that it never saw."""

from collections.abc import Sequence

import pandas as pd

from data.errors import SettingError
from pipelines.demand.fit import DemandOptions, calibrated_demand_bundle, measured_signals
from pipelines.demand.metrics import demand_rows
from pipelines.progress import progress
from pipelines.splits import Fold, memory_configuration_folds, memory_family_folds
from serving.inference.demand import Signal, demand_estimates_of_rows

SPLITS = ("configuration", "family")
FOLDS = {"configuration": 5, "family": 20}
GIVEN = "given"


def evaluate_demand(
    memory_runs: pd.DataFrame,
    splits: Sequence[str],
    seed: int,
    options: DemandOptions | None = None,
) -> list[dict[str, object]]:
    """Return flat rows of metrics for each way of holding out, together and signal by signal.

    Parameters
    ----------
    memory_runs : DataFrame, ``data.schemas.MEMORY_RUNS``
    splits : sequence of {"configuration", "family"}
        Families are held out one by one, up to twenty.
    seed : int
    options : DemandOptions, optional

    Returns
    -------
    list of dict
        As `demand_rows`, in the order of `splits`.

    Raises
    ------
    SettingError
        If a split is unknown, or the runs are too few for it.
    """
    unknown = [name for name in splits if name not in SPLITS]
    if unknown:
        raise SettingError(f"found the split {unknown[0]!r}, wanted some of {', '.join(SPLITS)}")
    runs, signals = measured_signals(memory_runs)
    options = options or DemandOptions()
    rows: list[dict[str, object]] = []
    for name in splits:
        make = memory_configuration_folds if name == "configuration" else memory_family_folds
        folds = progress(make(runs, FOLDS[name], seed), f"evaluating demand by {name}")
        parts = [_answers(runs, signals, fold, options, seed) for fold in folds]
        rows += demand_rows(name, _joined(parts))
    return rows


def evaluate_given_demand(
    train: pd.DataFrame, test: pd.DataFrame, seed: int, options: DemandOptions | None = None
) -> dict[str, object]:
    """Return one flat row of metrics for a test set, the mean over the signals of both sets.

    Parameters
    ----------
    train, test : DataFrame, ``data.schemas.MEMORY_RUNS``
    seed : int
    options : DemandOptions, optional

    Raises
    ------
    SettingError
        If there is nothing usable in either.
    """
    learnt, signals = measured_signals(train)
    asked, _ = measured_signals(test)
    both = pd.concat([learnt, asked], ignore_index=True)
    positions = pd.RangeIndex(len(both)).to_numpy()
    fold = Fold(GIVEN, positions[: len(learnt)], positions[len(learnt) :])
    known = [signal for signal in signals if asked[signal.name].notna().all()]
    if not known:
        raise SettingError("found no signal that both sets measured, wanted some")
    answers = _answers(both, signals, fold, options or DemandOptions(), seed)
    return demand_rows(GIVEN, {signal.name: answers[signal.name] for signal in known})[0]


def _answers(
    runs: pd.DataFrame, signals: Sequence[Signal], fold: Fold, options: DemandOptions, seed: int
) -> dict[str, pd.DataFrame]:
    train, asked = runs.iloc[fold.train].reset_index(drop=True), runs.iloc[fold.test]
    bundle, _ = calibrated_demand_bundle(train, signals, options, seed)
    return {
        name: estimates.assign(observed=asked[name], fold=fold.name).set_axis(fold.test)
        for name, estimates in demand_estimates_of_rows(bundle, asked).items()
    }


def _joined(parts: Sequence[dict[str, pd.DataFrame]]) -> dict[str, pd.DataFrame]:
    return {name: pd.concat([part[name] for part in parts]).sort_index() for name in parts[0]}
