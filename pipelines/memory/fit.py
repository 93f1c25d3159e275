"""Fit the quadratic of GPU memory, and calibrate its upper bound."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from sklearn.impute import SimpleImputer
from sklearn.linear_model import Ridge
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MaxAbsScaler, PolynomialFeatures

from data.errors import SettingError
from features.structure import FRAMEWORKS, MEMORY_COLUMNS, structure_features
from pipelines.conformal import DEFAULT_OUTSIDE, calibration, outside_factor
from pipelines.registering.model_spec import filled_spec
from pipelines.splits import Fold, extrapolation_folds, memory_configuration_folds
from serving.forest.compiled import compiled
from serving.inference.bundle import Bundle, Calibration, Floats
from serving.inference.memory import (
    SMALLEST_MIB,
    framework_names,
    group_ladder,
    memory_estimates_of_rows,
    memory_groups,
)

NAME = "colocast-memory"
PEAK = "gpu_mem_peak_mib"
MIN_RUNS = 5
WIDEST_OUTSIDE = 3.0  # on a logarithm: the bound to the third power


@dataclass(frozen=True, slots=True)
class QuadraticOptions:
    """How the quadratic is fitted and calibrated.

    Attributes
    ----------
    alpha : float
        Ridge penalty; the mean weight of a row is 1.
    folds : int
        Of the calibration.
    """

    alpha: float = 0.01
    folds: int = 5


def uncalibrated_memory_bundle(runs: pd.DataFrame, options: QuadraticOptions) -> Bundle:
    """Return the fitted quadratic; intervals are empty.

    Parameters
    ----------
    runs : DataFrame, ``data.schemas.MEMORY_RUNS``
        Usable ones, see ``pipelines.labelling.from_runs.usable``.
    options : QuadraticOptions

    Notes
    -----
    Products of two different inputs, no squares: memory is a sum of sizes and of products such
    as batch x activations, and a square that fits the middle is far off at the ends. Measured on
    GPUMemNet's MLPs with each fifth of the sizes held out: R² 0.98 without squares, below 0 with.
    """
    features = structure_features(runs)[list(MEMORY_COLUMNS)]
    peak = np.maximum(runs[PEAK].to_numpy(np.float64), SMALLEST_MIB)
    quadratic = Pipeline(
        [
            # A part that a model does not have, or that is not stated, adds nothing to the sum.
            ("absent", SimpleImputer(strategy="constant", fill_value=0, keep_empty_features=True)),
            ("scale", MaxAbsScaler()),
            ("products", PolynomialFeatures(2, interaction_only=True, include_bias=False)),
            ("ridge", Ridge(options.alpha)),
        ]
    )
    rows = features.to_numpy(np.float64)  # without names: the service hands over plain arrays
    quadratic.fit(rows, peak, ridge__sample_weight=_weights(runs, peak))
    predict = compiled(quadratic)
    spec = filled_spec(NAME, features, predict, floor=float(peak.min()))
    return Bundle(spec, f"{NAME}/unregistered", predict, quadratic)


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
    folds = memory_configuration_folds(runs, options.folds, seed)
    held_out = held_out_memory(runs, folds, options)
    bundle = uncalibrated_memory_bundle(runs, options)
    found = log_residuals(held_out)
    answers = held_out["value"].to_numpy(np.float64)
    calibrated = calibration(found, group_ladder(runs.iloc[held_out.index], answers)[::-1])
    bundle = _recalibrated(bundle, calibrated)
    beyond = held_out_memory(runs, extrapolation_folds(runs), options)
    outside = _outside(bundle, runs, held_out, beyond)
    answered = {"configuration": held_out, "extrapolation": beyond}
    bundle = _recalibrated(bundle, replace(calibrated, outside=outside))
    return bundle, {name: rows for name, rows in answered.items() if len(rows)}


def held_out_memory(
    runs: pd.DataFrame, folds: Sequence[Fold], options: QuadraticOptions
) -> pd.DataFrame:
    """Return what a model that never saw them answers for the held-out runs.

    Returns
    -------
    DataFrame, indexed by position in `runs`
        ``value`` (MiB), ``in_domain``, ``fold`` (what was held out) and ``peak`` (MiB, measured).
    """
    parts = [pd.DataFrame(columns=["value", "in_domain", "fold", "peak"])]
    for fold in folds:
        bundle = uncalibrated_memory_bundle(runs.iloc[fold.train], options)
        asked = runs.iloc[fold.test]
        estimates = memory_estimates_of_rows(bundle, asked)[["value", "in_domain"]]
        parts.append(estimates.assign(fold=fold.name, peak=asked[PEAK]).set_axis(fold.test))
    return pd.concat(parts[1:] or parts).sort_index()


def log_residuals(estimates: pd.DataFrame) -> Floats:
    """Return log(measured / predicted) of held-out runs."""
    peak = np.maximum(estimates["peak"].to_numpy(np.float64), SMALLEST_MIB)
    return np.asarray(np.log(peak / estimates["value"].to_numpy(np.float64)), dtype=np.float64)


def _weights(runs: pd.DataFrame, peak: Floats) -> Floats:
    """Weigh relative errors equally, and frameworks equally however often each was measured."""
    name = framework_names(runs["framework"])
    known = name.where(name.isin(FRAMEWORKS), "other")  # the features tell no others apart
    weights = 1 / (peak**2 * known.map(known.value_counts()).to_numpy(np.float64))
    return np.asarray(weights / weights.mean(), dtype=np.float64)


def _recalibrated(bundle: Bundle, calibrated: Calibration) -> Bundle:
    return replace(bundle, spec=replace(bundle.spec, calibration=calibrated))


def _outside(
    bundle: Bundle, runs: pd.DataFrame, held_out: pd.DataFrame, beyond: pd.DataFrame
) -> float:
    """Return by how much more than promised errors grow where sizes are extrapolated.

    The worst of the held-out fifths counts: towards larger models errors grow more than towards
    smaller ones, and what is asked lies beyond the largest.
    """
    inside = held_out[held_out["in_domain"].astype("bool")]
    outside = beyond[~beyond["in_domain"].astype("bool")]
    rows = [pd.concat([inside, part]) for _, part in outside.groupby("fold")]
    return max([DEFAULT_OUTSIDE, *(_worse(bundle, runs, part) for part in rows)])


def _worse(bundle: Bundle, runs: pd.DataFrame, rows: pd.DataFrame) -> float:
    promised = bundle.spec.calibration
    answers = rows["value"].to_numpy(np.float64)
    groups = memory_groups(promised, runs.iloc[rows.index], answers)
    half = [np.abs(promised.groups.get(group, promised.default)).max() for group in groups]
    scaled = log_residuals(rows) / np.maximum(half, 1e-9)
    return outside_factor(scaled, rows["in_domain"].to_numpy(dtype=np.bool_), widest=WIDEST_OUTSIDE)
