"""Measure the demand model on configurations and families that it never saw."""

from collections.abc import Mapping, Sequence

import pandas as pd

from data.errors import SettingError
from pipelines.demand.calibration import calibrated_demand_bundle
from pipelines.demand.fit import DemandOptions, learnt_signals, measured_signals
from pipelines.demand.metrics import demand_rows, named_with_unit
from pipelines.judged import GIVEN, Judged, Keep, checked_splits, dropped, given_fold
from pipelines.progress import progress
from pipelines.splits import Fold, memory_configuration_folds, memory_family_folds
from serving.inference.demand import Signal, demand_estimates_of_rows

SPLITS = ("configuration", "family")
FOLDS = {"configuration": 5, "family": 20}


def evaluate_demand(
    memory_runs: pd.DataFrame,
    splits: Sequence[str],
    seed: int,
    options: DemandOptions | None = None,
    keep: Keep = dropped,
) -> list[dict[str, object]]:
    """Return flat rows of metrics for each way of holding out, together and signal by signal.

    Parameters
    ----------
    memory_runs : DataFrame, ``data.schemas.MEMORY_RUNS``
    splits : sequence of {"configuration", "family"}
        Families are held out one by one, up to twenty.
    seed : int
    options : DemandOptions, optional
    keep : callable
        Is given the answers of each split and signal that is a mean.

    Returns
    -------
    list of dict
        As `demand_rows`, in the order of `splits`.

    Raises
    ------
    SettingError
        If a split is unknown, or the runs are too few for it.
    """
    checked_splits(splits, SPLITS)
    runs, signals = measured_signals(memory_runs)
    options = options or DemandOptions()
    rows: list[dict[str, object]] = []
    for name in splits:
        make = memory_configuration_folds if name == "configuration" else memory_family_folds
        folds = progress(make(runs, FOLDS[name], seed), f"evaluating demand by {name}")
        parts = [_answers(runs, signals, fold, options, seed) for fold in folds]
        joined = _joined(parts)
        _kept(name, joined, runs, signals, keep)
        rows += demand_rows(name, joined, runs["family"])
    return rows


def evaluate_given_demand(
    train: pd.DataFrame,
    test: pd.DataFrame,
    seed: int,
    options: DemandOptions | None = None,
    keep: Keep = dropped,
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
    both, fold = given_fold(learnt, asked)
    known = [signal for signal in signals if asked[signal.name].notna().all()]
    if not known:
        raise SettingError("found no signal that both sets measured, wanted some")
    answers = _answers(both, signals, fold, options or DemandOptions(), seed)
    named = {signal.name: answers[signal.name] for signal in known}
    _kept(GIVEN, named, both, known, keep)
    return demand_rows(GIVEN, named, both["family"])[0]


def _answers(
    runs: pd.DataFrame, signals: Sequence[Signal], fold: Fold, options: DemandOptions, seed: int
) -> dict[str, pd.DataFrame]:
    train, asked = runs.iloc[fold.train].reset_index(drop=True), runs.iloc[fold.test]
    # The spread that each signal is divided by is of what is learnt alone.
    bundle, _ = calibrated_demand_bundle(train, learnt_signals(signals, train), options, seed)
    return {
        name: estimates.assign(observed=asked[name], fold=fold.name).set_axis(fold.test)
        for name, estimates in demand_estimates_of_rows(bundle, asked).items()
    }


def _kept(
    split: str,
    answers: Mapping[str, pd.DataFrame],
    runs: pd.DataFrame,
    signals: Sequence[Signal],
    keep: Keep,
) -> None:
    for signal in signals:
        if signal.name.endswith("_mean") and signal.name in answers:
            rows = answers[signal.name]
            named = rows.assign(group=runs["family"].iloc[rows.index].astype("str"))
            keep(
                Judged(
                    f"{split}:{signal.name}",
                    named_with_unit(signal.name),
                    named.reset_index(drop=True),
                    is_ratio=False,
                )
            )


def _joined(parts: Sequence[dict[str, pd.DataFrame]]) -> dict[str, pd.DataFrame]:
    return {name: pd.concat([part[name] for part in parts]).sort_index() for name in parts[0]}
