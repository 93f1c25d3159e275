"""Fit the quadratic of GPU memory: sizes and products of two sizes, none of them counted down."""

from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import Pipeline

from features.memory_terms import (
    ANY,
    KINSHIPS,
    TERMS,
    blocks,
    group_of,
    learnt_columns,
    memory_features,
    term_of,
)
from pipelines.registering.model_spec import filled_spec
from serving.forest.compiled import compiled
from serving.inference.bundle import Bundle, Floats
from serving.inference.memory import SMALLEST_MIB
from serving.inference.memory_beyond import Widening

NAME = "colocast-memory"
PEAK = "gpu_mem_peak_mib"
USUAL = {
    "embedding_mib_per_gpu": 2.0,  # the weights, and a gradient of each
    "dense_mib": 2.0,
    "optimizer_mib": 1.0,
    "activations_mib": 1.0,
    "largest_activation_mib": 2.0,  # gradients on both sides of it, during the backward pass
}
"""MiB of memory for a MiB of each term where no run tells: what PyTorch needs at least."""


@dataclass(frozen=True, slots=True)
class QuadraticOptions:
    """How the quadratic is fitted and calibrated.

    Attributes
    ----------
    alpha : float
        Ridge penalty, where a column's mean square and the mean weight of a row are 1.
    folds : int
        Of the calibration.
    widening : Widening
    kinships : tuple of str
        Of ``features.memory_terms.KINSHIPS``, ``any`` among them: how near kin have coefficients
        of their own.
    terms : tuple of str
        Of ``features.memory_terms.TERMS``: what the sum is of.
    positive : bool
        Whether nothing that a model has may make it need less.
    peak_power : float
        Errors are divided by the measured memory to this power: 1 makes them relative, 0 absolute.
    """

    alpha: float = 1e-3
    folds: int = 5
    widening: Widening = field(default_factory=Widening)
    kinships: tuple[str, ...] = KINSHIPS
    terms: tuple[str, ...] = TERMS
    positive: bool = True
    peak_power: float = 1.0


def uncalibrated_memory_bundle(runs: pd.DataFrame, options: QuadraticOptions) -> Bundle:
    """Return the fitted quadratic; intervals are empty.

    Parameters
    ----------
    runs : DataFrame, ``data.schemas.MEMORY_RUNS``
        Usable ones, see ``pipelines.labelling.from_runs.usable``.
    options : QuadraticOptions

    Notes
    -----
    Non-negative ridge regression (Lawson and Hanson, "Solving Least Squares Problems", 1974) on
    relative errors. Nothing that a model has makes it need less, and a sum of parts goes on as it
    began where sizes were never seen: on DLPerf, with each fifth of the sizes held out, R² is 0.97
    so and 0.5 to 0.8 with coefficients of either sign.
    """
    columns = learnt_columns(runs, options.kinships, options.terms)
    peak = np.maximum(runs[PEAK].to_numpy(np.float64), SMALLEST_MIB)
    # Each run teaches four answers: for its exact kin, and for ever less that is known of it.
    taught = pd.concat([runs] * len(options.kinships), ignore_index=True)
    kinships = pd.Series(np.repeat(options.kinships, len(runs)))
    features = memory_features(taught, columns, kinships)
    quadratic = Pipeline(
        [
            # A part that a model does not have, or that is not stated, adds nothing to the sum.
            ("absent", SimpleImputer(strategy="constant", fill_value=0, keep_empty_features=True)),
            ("sum", LinearRegression(fit_intercept=False, positive=options.positive)),
        ]
    )
    rows = quadratic["absent"].fit_transform(features.to_numpy(np.float64))
    _fit_sum(quadratic["sum"], rows, peak, columns, options)
    predict = compiled(quadratic)
    spec = filled_spec(NAME, features, predict, floor=float(peak.min()))
    return Bundle(spec, f"{NAME}/unregistered", predict, quadratic)


def _fit_sum(
    linear: LinearRegression,
    rows: Floats,
    peak: Floats,
    columns: tuple[str, ...],
    options: QuadraticOptions,
) -> None:
    """Fit by least squares on weighed errors, drawn towards the usual coefficients.

    The penalty is written as further rows. All rows of a block are first folded into as many as
    it has columns, which leaves the squares as they are.
    """
    runs, unit = len(peak), peak**options.peak_power
    weighted = rows / np.tile(unit, len(options.kinships))[:, None] / np.sqrt(runs)
    target = (peak / unit / np.sqrt(runs))[:, None]
    scale = np.sqrt((weighted**2).sum(axis=0))
    usual = np.array([_usual(name) for name in columns])
    coefficients = np.where(scale > 0, 0.0, usual)  # of what no run has
    found = blocks(columns)
    for at, kinship in enumerate(options.kinships):
        places = [place for place in found[kinship] if scale[place] > 0]
        own = slice(at * runs, (at + 1) * runs)
        folded: Floats = np.linalg.qr(
            np.hstack([weighted[own][:, places] / scale[places], target])
        )[1]
        drawn = np.sqrt(options.alpha) * usual[places] * scale[places]
        penalty = np.sqrt(options.alpha) * np.eye(len(places))
        linear.fit(np.vstack([folded[:, :-1], penalty]), np.concatenate([folded[:, -1], drawn]))
        coefficients[places] = linear.coef_ / scale[places]
    # One estimator for all blocks, which share no column; its last fit was of one of them.
    linear.coef_, linear.n_features_in_ = coefficients, len(columns)


def _usual(column: str) -> float:
    """Return the usual coefficient of a column that all models share; what groups add is 0."""
    return USUAL.get(term_of(column), 0.0) if group_of(column) == ANY else 0.0
