"""What one model version consists of: an estimator and the facts needed to use it.

Training writes it, the service reads it, and both predict through it, so that what is evaluated
is what is served. No class of ours is serialized: the estimator is a public scikit-learn or
LightGBM object, everything else is JSON and Parquet beside it.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from data.errors import BadModelError

Scale = Literal["identity", "log"]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Calibration:
    """Conformal residual quantiles on the model's scale, by group.

    Attributes
    ----------
    level : float
        Nominal coverage of the two-sided interval, in (0, 1); 0.9 leaves 0.05 on each side.
    default : tuple of float
        Lower and upper residual quantile (observed minus predicted) for any group.
    groups : mapping of str to tuple of float
        The same for groups that were large enough to be calibrated on their own.
    outside : float
        Factor on both quantiles where the input lies outside what was learnt (>= 1).
    least_spread : float, optional
        Where given, quantiles are in units of what a forest's trees differ by, which is this at
        least; without, they are residuals themselves.
    """

    level: float
    default: tuple[float, float]
    groups: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    outside: float = 1.0
    least_spread: float | None = None


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """The facts beside an estimator, as stored in ``spec.json``.

    Attributes
    ----------
    name : str
        Registered model name, e.g. ``colocast-interference``.
    features : tuple of str
        Input columns, in order, all float64; NaN means missing.
    scale : {"identity", "log"}
        What the estimator predicts: the target, or its natural logarithm.
    calibration : Calibration
    low, high : mapping of str to float
        Range of each feature in the training rows; missing features were never seen.
    floor : float
        No estimate and no lower bound lies below it, in the target's unit.
    example_rows, example_values : tuple
        Stored inputs with the estimator's raw answers; checked again at every load.
    facts : mapping of str to str
        Data digest, code version, rows and whatever else a reader should find.
    """

    name: str
    features: tuple[str, ...]
    scale: Scale
    calibration: Calibration
    low: Mapping[str, float]
    high: Mapping[str, float]
    floor: float
    example_rows: tuple[tuple[float | None, ...], ...] = ()
    example_values: tuple[float, ...] = ()
    facts: Mapping[str, str] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        """SHA-256 of the JSON form, in hex."""
        return hashlib.sha256(spec_json(self).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Bundle:
    """One loaded model version.

    Attributes
    ----------
    spec : ModelSpec
    version : str
        ``<registered name>/<version>``, as answers name it.
    predict : callable
        float64 array of shape (n, n_features) to float64 array (n,) or, for the demand forest,
        (n, n_signals), on the spec's scale.
    estimator : object
        The scikit-learn estimator or LightGBM booster behind `predict`.
    tables : mapping of str to DataFrame
        Frames stored beside the model, such as ``profiles``.
    spread : callable, optional
        From the same rows to the standard deviation of the trees' answers, of a version whose
        intervals count in it.
    """

    spec: ModelSpec
    version: str
    predict: Callable[[Floats], Floats]
    estimator: object
    tables: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    spread: Callable[[Floats], Floats] | None = None


def spec_json(spec: ModelSpec) -> str:
    """Return `spec` as canonical JSON: sorted keys, no spaces, NaN as null in example rows."""
    return json.dumps(asdict(spec), sort_keys=True, separators=(",", ":"), allow_nan=False)


def spec_from_json(text: str) -> ModelSpec:
    """Return the spec that `spec_json` wrote.

    Raises
    ------
    BadModelError
        If the text is not such a JSON document.
    """
    try:
        fields = json.loads(text)
        calibration = fields.pop("calibration")
        groups = {name: tuple(pair) for name, pair in calibration.pop("groups").items()}
        default = tuple(calibration.pop("default"))
        return ModelSpec(
            **{
                **fields,
                "calibration": Calibration(**calibration, default=default, groups=groups),
                "features": tuple(fields["features"]),
                "example_rows": tuple(tuple(row) for row in fields["example_rows"]),
                "example_values": tuple(fields["example_values"]),
            }
        )
    except (KeyError, TypeError, ValueError) as error:
        raise BadModelError(f"spec.json: found {error!r}, wanted what spec_json writes") from error


def interval_frame(
    spec: ModelSpec,
    raw: Floats,
    rows: pd.DataFrame,
    groups: pd.Series,
    units: Floats | float = 1.0,
) -> pd.DataFrame:
    """Turn raw predictions into values with calibrated bounds.

    Parameters
    ----------
    spec : ModelSpec
    raw : array of shape (n,), float64
        The estimator's answers, on the spec's scale.
    rows : DataFrame of shape (n, n_features)
        The features that were predicted from; decides what lies outside the training range.
    groups : Series of str, length n
        Calibration group of each row; an unknown group gets the default quantiles.
    units : array of shape (n,), float64, or float
        What the quantiles of each row count in, on the spec's scale.

    Returns
    -------
    DataFrame of shape (n, 4), indexed as `rows`
        ``value``, ``lower``, ``upper`` in the target's unit, ``in_domain`` (bool);
        ``floor <= lower <= value <= upper``.
    """
    found = [spec.calibration.groups.get(g, spec.calibration.default) for g in groups]
    quantiles = np.array(found, dtype=np.float64).reshape(-1, 2)
    quantiles *= np.broadcast_to(units, len(rows))[:, None]
    bounds, in_domain = interval_arrays(spec, raw, _values(spec, rows), quantiles)
    columns = dict(zip(("value", "lower", "upper"), bounds, strict=True))
    return pd.DataFrame({**columns, "in_domain": in_domain}, index=rows.index)


def interval_arrays(
    spec: ModelSpec, raw: Floats, values: Floats, quantiles: Floats
) -> tuple[Floats, NDArray[np.bool_]]:
    """Return value, lower and upper bound of raw predictions, and what lies in the domain.

    Parameters
    ----------
    spec : ModelSpec
    raw : array of shape (n,), float64
    values : array of shape (n, n_features), float64
        In the order of the spec.
    quantiles : array of shape (n, 2), float64
        Of the residuals, lower and upper.

    Returns
    -------
    bounds : array of shape (3, n), float64
        Value, lower, upper.
    in_domain : array of shape (n,), bool
    """
    in_domain = inside_values(spec, values)
    low, high = quantiles.T
    widen = np.where(in_domain, 1.0, spec.calibration.outside)
    back = np.exp if spec.scale == "log" else np.asarray
    value = np.maximum(back(raw), spec.floor)
    lower = np.clip(back(raw + low * widen), spec.floor, value)
    upper = np.maximum(back(raw + high * widen), value)
    return np.stack([value, lower, upper]), in_domain


def inside(spec: ModelSpec, rows: pd.DataFrame) -> NDArray[np.bool_]:
    """Return, for each row, whether every known feature lies in its training range."""
    return inside_values(spec, _values(spec, rows))


def _values(spec: ModelSpec, rows: pd.DataFrame) -> Floats:
    return rows[list(spec.features)].to_numpy(np.float64)


def inside_values(spec: ModelSpec, values: Floats) -> NDArray[np.bool_]:
    """Return the same of an array with the spec's features in their order."""
    low = np.array([spec.low.get(name, np.nan) for name in spec.features])
    high = np.array([spec.high.get(name, np.nan) for name in spec.features])
    known = ~np.isnan(values)
    within = (values >= low) & (values <= high)
    return np.asarray((within | ~known).all(axis=1))
