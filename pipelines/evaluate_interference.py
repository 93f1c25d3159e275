"""Measure the interference model on pairs, configurations and families that it never saw."""

from collections.abc import Sequence
from dataclasses import replace

import pandas as pd

from data.errors import SettingError
from features.profiles import profiles, proven_exclusive
from pipelines.audit import audited
from pipelines.audit_noise import Noise
from pipelines.audit_rules import ALL_ROWS
from pipelines.interference_baselines import baseline_estimates
from pipelines.interference_fit import (
    KINDS,
    ForestOptions,
    InterferenceData,
    calibrated_bundle,
    possible_folds,
)
from pipelines.interference_metrics import split_row
from pipelines.progress import progress
from pipelines.splits import Fold
from serving.interference import PROFILES_TABLE, slowdown_estimates

OUTER_FOLDS = {"pair": 5, "configuration": 10, "family": 20}
"""Held out in turn; up to twenty families one by one."""

GIVEN = "given"


def evaluate_interference(
    runs: pd.DataFrame, splits: Sequence[str], seed: int, options: ForestOptions | None = None
) -> list[dict[str, object]]:
    """Return one flat row of metrics for each way of holding out.

    Parameters
    ----------
    runs : DataFrame, ``data.schemas.PROFILING_RUNS``
        Audited first; what is quarantined is neither learnt from nor tested on.
    splits : sequence of {"pair", "configuration", "family"}
    seed : int
    options : ForestOptions, optional

    Returns
    -------
    list of dict
        As `split_row`. In every fold the model is fitted and its intervals are calibrated on the
        rows of the other folds only, and it answers through the service's own functions.

    Raises
    ------
    SettingError
        If a split is unknown, or the labels are too few for it.
    """
    unknown = [name for name in splits if name not in OUTER_FOLDS]
    if unknown:
        wanted = ", ".join(OUTER_FOLDS)
        raise SettingError(f"found the split {unknown[0]!r}, wanted some of {wanted}")
    audit = audited(runs)
    data = InterferenceData(audit.labels, profiles(runs), audit.noise.floor)
    options = options or ForestOptions()
    return [_evaluated_split(name, data, audit.noise, options, seed) for name in splits]


def _evaluated_split(
    split: str, data: InterferenceData, noise: Noise, options: ForestOptions, seed: int
) -> dict[str, object]:
    folds = possible_folds(split, data.labels, OUTER_FOLDS[split], seed)
    if not folds:
        raise SettingError(f"found no way to hold out by {split} in {len(data.labels)} labels")
    parts = [
        _answers(data, fold, options, seed, (split,))
        for fold in progress(folds, f"evaluating by {split}")
    ]
    rows = pd.concat(parts).sort_index()
    return split_row(split, rows, baseline_estimates(data, folds), noise)


def _answers(
    data: InterferenceData, fold: Fold, options: ForestOptions, seed: int, kinds: Sequence[str]
) -> pd.DataFrame:
    bundle, _ = calibrated_bundle(data.of_rows(fold.train), options, seed, kinds)
    asked = data.labels.iloc[fold.test]
    estimates = slowdown_estimates(bundle, asked)
    return estimates.assign(slowdown=asked["slowdown"]).set_axis(fold.test)


def evaluate_given_interference(
    train: pd.DataFrame, test: pd.DataFrame, seed: int, options: ForestOptions | None = None
) -> dict[str, object]:
    """Return one flat row of metrics for a test set whose jobs may be unknown.

    Parameters
    ----------
    train, test : DataFrame, ``data.schemas.PROFILING_RUNS``
        Every colocated run of `test` that has a label is asked, audited or not. A job that
        `test` never ran alone has its baseline and profile from `train`.
    seed : int
    options : ForestOptions, optional

    Returns
    -------
    dict
        As `split_row`, with ``split`` ``given``, ``unlabelled`` (colocated runs of `test` without
        a label) and ``model_share`` (share of rows that had both profiles).

    Raises
    ------
    SettingError
        If no colocated run of `test` has a label.
    """
    audit = audited(train)
    data = InterferenceData(audit.labels, profiles(train), audit.noise.floor)
    bundle, _ = calibrated_bundle(data, options or ForestOptions(), seed, KINDS)
    known = _with_baselines(train, test)
    asked = audited(known, ALL_ROWS)
    labels = asked.labels[asked.labels["run_id"].isin(test["run_id"])].reset_index(drop=True)
    if labels.empty:
        raise SettingError("found no colocated run with a baseline in the test set, wanted some")
    tables = {**bundle.tables, PROFILES_TABLE: profiles(known)}
    estimates = slowdown_estimates(replace(bundle, tables=tables), labels)
    rows = estimates.assign(slowdown=labels["slowdown"])
    trivial = baseline_estimates(
        _joined(data, labels, tables[PROFILES_TABLE]), [_last(data, labels)]
    )
    trivial = trivial.set_axis(labels.index)
    return {
        **split_row(GIVEN, rows, trivial, asked.noise),
        "unlabelled": int(test["neighbour_key"].notna().sum()) - len(labels),
        "model_share": float((rows["source"] == "model").mean()),
    }


def _with_baselines(train: pd.DataFrame, test: pd.DataFrame) -> pd.DataFrame:
    """Return the test runs, and the exclusive runs of jobs that they lack."""
    keys = ["job_key", "gpu_model"]
    alone = test[proven_exclusive(test)]
    has_own = pd.MultiIndex.from_frame(train[keys]).isin(pd.MultiIndex.from_frame(alone[keys]))
    borrowed = train[proven_exclusive(train) & ~has_own & ~train["run_id"].isin(test["run_id"])]
    return pd.concat([test, borrowed], ignore_index=True)


def _joined(data: InterferenceData, labels: pd.DataFrame, table: pd.DataFrame) -> InterferenceData:
    both = pd.concat([data.labels, labels], ignore_index=True)
    return InterferenceData(both, table, data.floor)


def _last(data: InterferenceData, labels: pd.DataFrame) -> Fold:
    positions = pd.RangeIndex(len(data.labels) + len(labels)).to_numpy()
    return Fold(GIVEN, positions[: len(data.labels)], positions[len(data.labels) :])
