"""Measure the memory model on configurations and on model sizes that it never saw."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from sklearn.ensemble import RandomForestRegressor

from data.errors import SettingError
from features.structure import STRUCTURE_COLUMNS, structure_features
from pipelines.judged import (
    GIVEN,
    Judged,
    Keep,
    checked_splits,
    dropped,
    given_fold,
    worst_coverage,
)
from pipelines.labelling.from_runs import usable
from pipelines.memory.calibration import calibrated_memory_bundle
from pipelines.memory.fit import PEAK, QuadraticOptions
from pipelines.metrics import TINY, abstention, best_baseline, estimate_metrics, r2
from pipelines.progress import progress
from pipelines.splits import Fold, extrapolation_folds, memory_configuration_folds
from serving.inference.bundle import Floats
from serving.inference.memory import framework_names, memory_estimates_of_rows

SPLITS = ("configuration", "extrapolation")
FOLDS = 5
SLACK = 0.05  # a run counts as under-estimated when it needs 5 % more than the upper bound
LARGEST = "fifth 5"
REFERENCE_TREES = 30
MIN_SERIES = 30  # rows of a data set and framework that are worth a row of metrics


def evaluate_memory(
    runs: pd.DataFrame,
    splits: Sequence[str],
    seed: int,
    options: QuadraticOptions | None = None,
    keep: Keep = dropped,
) -> list[dict[str, object]]:
    """Return one flat row of metrics for each way of holding out, and for each data set in it.

    Parameters
    ----------
    runs : DataFrame, ``data.schemas.MEMORY_RUNS``
    splits : sequence of {"configuration", "extrapolation"}
        ``extrapolation`` holds out each fifth of model sizes in turn.
    seed : int
    options : QuadraticOptions, optional
    keep : callable
        Is given the answers of each split.

    Returns
    -------
    list of dict
        As `memory_row`. ``<split>`` is of all rows, ``<split>:<data set>/<framework>`` of some,
        ``extrapolation:largest`` of the largest fifths.

    Raises
    ------
    SettingError
        If a split is unknown, or the runs are too few for it.
    """
    checked_splits(splits, SPLITS)
    runs = usable(runs)
    return [
        row
        for name in splits
        for row in _evaluated_split(name, runs, options or QuadraticOptions(), seed, keep)
    ]


def evaluate_given_memory(
    train: pd.DataFrame,
    test: pd.DataFrame,
    seed: int,
    options: QuadraticOptions | None = None,
    keep: Keep = dropped,
) -> dict[str, object]:
    """Return one flat row of metrics for a test set, as `memory_row` with ``split`` ``given``.

    Parameters
    ----------
    train, test : DataFrame, ``data.schemas.MEMORY_RUNS``
    seed : int
    options : QuadraticOptions, optional

    Raises
    ------
    SettingError
        If there is nothing usable in either.
    """
    train, test = usable(train), usable(test)
    if test.empty:
        raise SettingError("found no run of known memory in the test set, wanted some")
    both, fold = given_fold(train, test)
    rows = _answers(both, fold, options or QuadraticOptions(), seed)
    keep(_judged(GIVEN, rows, both))
    return memory_row(GIVEN, rows, both)


def memory_row(split: str, rows: pd.DataFrame, runs: pd.DataFrame) -> dict[str, object]:
    """Return the metrics of held-out memory estimates beside those of trivial answers.

    Parameters
    ----------
    split : str
    rows : DataFrame, indexed by position in `runs`
        ``value``, ``lower``, ``upper``, ``constant``, ``framework``, ``forest`` (MiB) and
        ``in_domain``.
    runs : DataFrame, ``data.schemas.MEMORY_RUNS``

    Returns
    -------
    dict
        ``split``; the keys of `estimate_metrics` (``under_rate``: share of runs that need more
        than 5 % above the upper bound, which is meant to hold for 95 %), and of `best_baseline`;
        ``ceiling_r2`` from repeats of a configuration; ``reference_forest_r2`` of a forest on
        the same inputs, no baseline but the reason for a quadratic; ``upper_margin_median``
        (upper bound / value - 1); the keys of `abstention` (errors of the logarithm) and
        ``coverage_90_worst`` (share inside the interval that nine tenths of the frameworks'
        versions with a family reach). None where undefined.
    """
    part = runs.iloc[rows.index]
    observed = part[PEAK].to_numpy(np.float64)
    error = np.abs(np.log(observed / np.maximum(rows["value"].to_numpy(np.float64), TINY)))
    trivial = {name: rows[name].to_numpy(np.float64) for name in ("constant", "framework")}
    return {
        "split": split,
        **estimate_metrics(observed, rows, SLACK),
        **best_baseline(observed, trivial),
        "ceiling_r2": _ceiling(part),
        "reference_forest_r2": r2(observed, rows["forest"].to_numpy(np.float64)),
        "upper_margin_median": float((rows["upper"] / rows["value"] - 1).median()),
        **abstention(error, rows["in_domain"].to_numpy(np.bool_)),
        "coverage_90_worst": worst_coverage(observed, rows, _kinds(part)),
    }


def _evaluated_split(
    split: str, runs: pd.DataFrame, options: QuadraticOptions, seed: int, keep: Keep
) -> list[dict[str, object]]:
    if split == "configuration":
        folds = memory_configuration_folds(runs, FOLDS, seed)
    else:
        folds = extrapolation_folds(runs)
    answers = {
        fold.name: _answers(runs, fold, options, seed)
        for fold in progress(folds, f"evaluating memory by {split}")
    }
    rows = pd.concat(answers.values()).sort_index()
    parts = _series(rows, runs)
    keep(_judged(split, rows, runs))
    if split == "extrapolation" and LARGEST in answers:
        parts = {"largest": answers[LARGEST], **parts}
    found = [memory_row(split, rows, runs)]
    return found + [memory_row(f"{split}:{name}", part, runs) for name, part in parts.items()]


def _series(rows: pd.DataFrame, runs: pd.DataFrame) -> Mapping[str, pd.DataFrame]:
    """Return the rows of each large data set and framework; none where there is only one."""
    part = runs.iloc[rows.index]
    names = part["dataset"].astype("str") + "/" + framework_names(part["framework"])
    groups = {str(name): group for name, group in rows.groupby(names.to_numpy())}
    large = {name: group for name, group in groups.items() if len(group) >= MIN_SERIES}
    return large if len(groups) > 1 else {}


def _kinds(runs: pd.DataFrame) -> pd.Series:
    return runs["framework"].astype("str") + " " + runs["family"].astype("str")


def _judged(split: str, rows: pd.DataFrame, runs: pd.DataFrame) -> Judged:
    part = runs.iloc[rows.index]
    judged = rows.assign(observed=part[PEAK].to_numpy(), group=_kinds(part).to_numpy())
    rows = judged.reset_index(drop=True)
    return Judged(split, "memory (MiB)", rows, grouped_by="framework and family")


def _answers(runs: pd.DataFrame, fold: Fold, options: QuadraticOptions, seed: int) -> pd.DataFrame:
    train, asked = runs.iloc[fold.train].reset_index(drop=True), runs.iloc[fold.test]
    bundle, _ = calibrated_memory_bundle(train, options, seed)
    constant = float(train[PEAK].mean())
    means = train.groupby(framework_names(train["framework"]))[PEAK].mean()
    return (
        memory_estimates_of_rows(bundle, asked)
        .assign(
            constant=constant,
            framework=framework_names(asked["framework"]).map(means).fillna(constant),
            forest=_forest(train, asked, seed),
        )
        .set_axis(fold.test)
    )


def _forest(train: pd.DataFrame, asked: pd.DataFrame, seed: int) -> Floats:
    columns = list(STRUCTURE_COLUMNS)
    forest = RandomForestRegressor(REFERENCE_TREES, max_features=0.5, random_state=seed)
    forest.fit(structure_features(train)[columns], train[PEAK])
    return np.asarray(forest.predict(structure_features(asked)[columns]), dtype=np.float64)


def _ceiling(runs: pd.DataFrame) -> float | None:
    """Return the R² that repeats of a configuration allow; None where nothing was repeated."""
    groups = runs.groupby("configuration")[PEAK]
    freedom = len(runs) - groups.ngroups
    total = float(runs[PEAK].var()) if len(runs) > 1 else 0.0
    if freedom <= 0 or total <= 0:
        return None
    within = float(((runs[PEAK] - groups.transform("mean")) ** 2).sum()) / freedom
    return max(0.0, 1 - within / total)
