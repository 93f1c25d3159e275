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
    """

    alpha: float = 1e-3
    folds: int = 5
    widening: Widening = field(default_factory=Widening)


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
    columns = learnt_columns(runs)
    peak = np.maximum(runs[PEAK].to_numpy(np.float64), SMALLEST_MIB)
    # Each run teaches four answers: for its exact kin, and for ever less that is known of it.
    taught = pd.concat([runs] * len(KINSHIPS), ignore_index=True)
    kinships = pd.Series(np.repeat(KINSHIPS, len(runs)))
    features = memory_features(taught, columns, kinships)
    quadratic = Pipeline(
        [
            # A part that a model does not have, or that is not stated, adds nothing to the sum.
            ("absent", SimpleImputer(strategy="constant", fill_value=0, keep_empty_features=True)),
            ("sum", LinearRegression(fit_intercept=False, positive=True)),
        ]
    )
    rows = quadratic["absent"].fit_transform(features.to_numpy(np.float64))
    _fit_sum(quadratic["sum"], rows, np.tile(peak, len(KINSHIPS)), columns, options.alpha)
    predict = compiled(quadratic)
    spec = filled_spec(NAME, features, predict, floor=float(peak.min()))
    return Bundle(spec, f"{NAME}/unregistered", predict, quadratic)


def _fit_sum(
    linear: LinearRegression, rows: Floats, peak: Floats, columns: tuple[str, ...], alpha: float
) -> None:
    """Fit by least squares on relative errors, drawn towards the usual coefficients.

    The penalty is written as further rows. All rows of a block are first folded into as many as
    it has columns, which leaves the squares as they are.
    """
    runs = len(peak) // len(KINSHIPS)
    weighted = rows / peak[:, None] / np.sqrt(runs)
    scale = np.sqrt((weighted**2).sum(axis=0))
    usual = np.array([_usual(name) for name in columns])
    coefficients = np.where(scale > 0, 0.0, usual)  # of what no run has
    for at, block in enumerate(blocks(columns).values()):
        places = [place for place in block if scale[place] > 0]
        own = slice(at * runs, (at + 1) * runs)
        target = np.full((runs, 1), 1 / np.sqrt(runs))
        folded: Floats = np.linalg.qr(
            np.hstack([weighted[own][:, places] / scale[places], target])
        )[1]
        drawn = np.sqrt(alpha) * usual[places] * scale[places]
        penalty = np.sqrt(alpha) * np.eye(len(places))
        linear.fit(np.vstack([folded[:, :-1], penalty]), np.concatenate([folded[:, -1], drawn]))
        coefficients[places] = linear.coef_ / scale[places]
    # One estimator for all blocks, which share no column; its last fit was of one of them.
    linear.coef_, linear.n_features_in_ = coefficients, len(columns)


def _usual(column: str) -> float:
    """Return the usual coefficient of a column that all models share; what groups add is 0."""
    return USUAL.get(term_of(column), 0.0) if group_of(column) == ANY else 0.0
