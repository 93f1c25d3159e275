"""The facts beside an estimator, filled from the rows it was fitted on."""

from collections.abc import Callable

import numpy as np
import pandas as pd

from serving.champions.files import example_values
from serving.inference.bundle import Calibration, Floats, ModelSpec, Scale

EXAMPLES = 16  # spread over the training rows
UNCALIBRATED = Calibration(0.9, (0.0, 0.0))


def filled_spec(
    name: str,
    features: pd.DataFrame,
    predict: Callable[[Floats], Floats],
    *,
    floor: float,
    scale: Scale = "identity",
) -> ModelSpec:
    """Return a spec with the range of each feature and stored examples, not calibrated yet.

    Parameters
    ----------
    name : str
        Of the registered model.
    features : DataFrame of shape (n, n_features), n >= 1
        The training rows.
    predict : callable
        As in ``Bundle``.
    floor, scale
        As in ``ModelSpec``.
    """
    at = np.unique(np.linspace(0, len(features) - 1, EXAMPLES).astype(np.int64))
    examples = features.to_numpy(np.float64)[at]
    return ModelSpec(
        name=name,
        features=tuple(features.columns),
        scale=scale,
        calibration=UNCALIBRATED,
        low=_numbers(features.min()),
        high=_numbers(features.max()),
        floor=floor,
        example_rows=tuple(
            tuple(None if np.isnan(value) else float(value) for value in row) for row in examples
        ),
        example_values=example_values(predict(examples)),
    )


def _numbers(values: pd.Series) -> dict[str, float]:
    # A feature that no row has stays out: whoever brings it is outside what was learnt.
    return {str(name): float(value) for name, value in values.dropna().items()}
