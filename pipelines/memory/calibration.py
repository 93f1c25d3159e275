"""Calibrate the bounds of the memory model: within what was learnt, beyond it, and without kin."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace

import numpy as np
import pandas as pd

from data.errors import SettingError
from features.memory_terms import (
    ANY,
    EXACT,
    FRAMEWORK,
    KIND,
    kin,
    memory_features,
    nearest_kinship,
)
from pipelines.conformal import DEFAULT_OUTSIDE, calibration, residual_quantiles
from pipelines.memory.fit import PEAK, QuadraticOptions, uncalibrated_memory_bundle
from pipelines.splits import (
    Fold,
    extrapolation_folds,
    memory_configuration_folds,
    memory_family_folds,
)
from serving.inference.bundle import Bundle, Calibration, Floats
from serving.inference.memory import SMALLEST_MIB, answers_mib, group_ladder, within_quantiles
from serving.inference.memory_beyond import (
    BEYOND,
    BEYOND_TABLE,
    UNSEEN,
    Widening,
    distance,
    effective_kinship,
    unit_widths,
)

KIN = "kin"
MIN_RUNS = 5
MIN_CONFIGURATIONS = 12  # of a calibration group: of fewer even the extremes hold too little
MIN_ROWS = 30  # of a calibration group, and of a kinship
UNKNOWN = np.log(3.0)
"""Half the interval, on a logarithm, of a kin that no held-out run had: a factor of three."""


def calibrated_memory_bundle(
    runs: pd.DataFrame, options: QuadraticOptions, seed: int
) -> tuple[Bundle, dict[str, pd.DataFrame]]:
    """Return the fitted quadratic with intervals, and the held-out answers they rest on.

    Returns
    -------
    bundle : Bundle
    held_out : dict of split to DataFrame
        As `held_out_memory`, by ``configuration`` and by ``extrapolation`` in size; without the
        second where all runs are of one size.

    Raises
    ------
    SettingError
        With fewer than five runs, or of a single configuration.
    """
    if len(runs) < MIN_RUNS:
        raise SettingError(f"found {len(runs)} runs of known memory, wanted {MIN_RUNS} or more")
    held_out = held_out_of_each_kind(runs, options, seed)
    bundle = bounded(uncalibrated_memory_bundle(runs, options), runs, held_out, options.widening)
    return bundle, {name: rows for name, rows in held_out.items() if name != KIN and len(rows)}


def held_out_of_each_kind(
    runs: pd.DataFrame, options: QuadraticOptions, seed: int
) -> dict[str, pd.DataFrame]:
    """Return what `held_out_memory` gives by ``configuration``, by size and without kin."""
    folds = {
        "configuration": memory_configuration_folds(runs, options.folds, seed),
        "extrapolation": extrapolation_folds(runs),
        KIN: kin_folds(runs, options.folds, seed),
    }
    return {name: held_out_memory(runs, made, options) for name, made in folds.items()}


def bounded(
    bundle: Bundle, runs: pd.DataFrame, held_out: Mapping[str, pd.DataFrame], widening: Widening
) -> Bundle:
    """Return a fitted quadratic with the intervals that held-out answers give.

    Parameters
    ----------
    bundle : Bundle
        Fitted on `runs`.
    runs : DataFrame, ``data.schemas.MEMORY_RUNS``
    held_out : mapping of str to DataFrame
        As `held_out_of_each_kind`.
    widening : Widening
    """
    rows = held_out["configuration"]
    groups = large_groups(runs.iloc[rows.index], rows["value"].to_numpy(np.float64))
    within = calibration(log_residuals(rows), groups, outside=DEFAULT_OUTSIDE, smallest=MIN_ROWS)
    beyond = beyond_table(within, runs, [held_out["extrapolation"], held_out[KIN]], widening)
    spec = replace(bundle.spec, calibration=within)
    return replace(bundle, spec=spec, tables={BEYOND_TABLE: beyond})


def held_out_memory(
    runs: pd.DataFrame, folds: Sequence[Fold], options: QuadraticOptions
) -> pd.DataFrame:
    """Return what a model that never saw them answers for the held-out runs.

    Returns
    -------
    DataFrame, indexed by position in `runs`
        ``value`` (MiB), ``in_domain``, ``kinship``, ``share`` and ``log_ratio`` (see
        ``Distance``), ``fold`` (what was held out) and ``peak`` (MiB, measured).
    """
    columns = ["value", "in_domain", "kinship", "share", "log_ratio", "fold", "peak"]
    parts = [pd.DataFrame(columns=columns)]
    for fold in folds:
        bundle = uncalibrated_memory_bundle(runs.iloc[fold.train], options)
        asked = runs.iloc[fold.test].set_axis(fold.test)
        rows = memory_features(asked, bundle.spec.features)
        value, near = answers_mib(bundle, rows), nearest_kinship(asked, bundle.spec.features)
        far = distance(bundle, rows, value)
        within = far.within & (near == EXACT)
        answered = (value, within, effective_kinship(near, far), far.share, far.log_ratio)
        part = dict(zip(columns, (*answered, fold.name, asked[PEAK]), strict=True))
        parts.append(pd.DataFrame(part, index=asked.index))
    return pd.concat(parts[1:] or parts).sort_index(kind="stable")


def kin_folds(runs: pd.DataFrame, folds: int, seed: int) -> list[Fold]:
    """Hold out versions of frameworks with a family, frameworks with a family, and frameworks.

    A run is in one fold of each level, so that the model is asked what it has no such kin of.
    """
    groups = kin(runs)
    return [
        fold
        for level in (EXACT, KIND, FRAMEWORK)
        if len(groups[level].unique()) > 1
        for fold in memory_family_folds(pd.DataFrame({"family": groups[level]}), folds, seed)
        if len(fold.train) >= MIN_RUNS
    ]


def beyond_table(
    within: Calibration,
    runs: pd.DataFrame,
    answered: Sequence[pd.DataFrame],
    widening: Widening,
) -> pd.DataFrame:
    """Return how wide bounds are beyond what was learnt, by kinship; see ``memory_beyond``.

    Parameters
    ----------
    within : Calibration
    runs : DataFrame, ``data.schemas.MEMORY_RUNS``
    answered : sequence of DataFrame
        As `held_out_memory`.
    widening : Widening

    Returns
    -------
    DataFrame of shape (5, 5)
        ``kinship``, ``lower``, ``upper`` and the fields of `widening`; a kinship that too few
        held-out runs had is at least as wide as every nearer one.
    """
    parts = [_scaled(within, runs, rows, widening) for rows in answered]
    found = pd.concat(parts)
    scaled = {kinship: found[found.index == kinship].to_numpy(np.float64) for kinship in BEYOND}
    return pd.DataFrame(_widths(scaled)).assign(**asdict(widening))


def large_groups(runs: pd.DataFrame, answers: Floats) -> list[pd.Series]:
    """Return the calibration groups of each run from wide to narrow; empty where one is small.

    What counts are configurations: repeats of one say the same again.
    """
    configurations = runs["configuration"].astype("str")
    return [
        names.where(configurations.groupby(names).transform("nunique") >= MIN_CONFIGURATIONS, "")
        for names in reversed(group_ladder(runs, answers))
    ]


def log_residuals(estimates: pd.DataFrame) -> Floats:
    """Return log(measured / predicted) of held-out runs."""
    peak = np.maximum(estimates["peak"].to_numpy(np.float64), SMALLEST_MIB)
    return np.asarray(np.log(peak / estimates["value"].to_numpy(np.float64)), dtype=np.float64)


def _scaled(
    within: Calibration, runs: pd.DataFrame, rows: pd.DataFrame, widening: Widening
) -> pd.Series:
    """Return the residuals of rows beyond as shares of their unit widths, by kinship."""
    outside = rows[~rows["in_domain"].astype("bool")]
    value = outside["value"].to_numpy(np.float64)
    quantiles = within_quantiles(within, runs.iloc[outside.index], value)
    far = (outside[name].to_numpy(np.float64) for name in ("share", "log_ratio"))
    units = unit_widths(quantiles, outside["kinship"], widening.scale(*far))
    return pd.Series(log_residuals(outside) / units, index=outside["kinship"].astype("str"))


def _widths(scaled: Mapping[str, Floats]) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    low, high = -UNKNOWN, UNKNOWN
    for kinship in (EXACT, KIND, FRAMEWORK, ANY):
        found = scaled[kinship]
        if len(found) >= MIN_ROWS:
            low, high = residual_quantiles(found)
        elif kinship == EXACT:
            low, high = -1.0, 1.0
        else:
            low, high = min(low, -UNKNOWN), max(high, UNKNOWN)
        rows.append({"kinship": kinship, "lower": min(low, 0.0), "upper": max(high, 0.0)})
    found = scaled[UNSEEN]
    low, high = residual_quantiles(found) if len(found) >= MIN_ROWS else (0.0, 0.0)
    unseen = {"lower": min(low, -UNKNOWN), "upper": max(high, UNKNOWN)}
    return [*rows, {"kinship": UNSEEN, **unseen}]
