"""What is answered of a pair one of whose jobs was never profiled: measured slowdowns as such."""

import numpy as np
import pandas as pd

from pipelines.conformal import residual_quantiles

COLUMNS = ["side", "key", "gpu_model", "value", "lower", "upper", "rows"]
MIN_ROWS = 10


def cold_start_table(labels: pd.DataFrame) -> pd.DataFrame:
    """Return medians and 90 % ranges of the measured slowdowns, by the job that is known.

    Parameters
    ----------
    labels : DataFrame, ``data.schemas.LABELS``, at least one row

    Returns
    -------
    DataFrame
        ``side`` (``neighbour``: of all jobs beside ``key``; ``job``: of ``key`` beside all;
        ``any``: of all jobs, ``key`` empty), ``key``, ``gpu_model`` (empty: of all), ``value``,
        ``lower``, ``upper`` (slowdown) and ``rows``. Sides and GPU models with fewer than ten
        rows are left out; the last row, of everything, always stands.

    Examples
    --------
    >>> labels = pd.DataFrame({"job_key": "a", "neighbour_key": "b", "gpu_model": "v100",
    ...     "slowdown": [1.0, 1.2, 1.6]})
    >>> cold_start_table(labels).to_dict("records")  # doctest: +NORMALIZE_WHITESPACE
    [{'side': 'any', 'key': '', 'gpu_model': '', 'value': 1.2, 'lower': 1.0, 'upper': 1.6,
      'rows': 3}]
    """
    sides = {
        "neighbour": labels["neighbour_key"],
        "job": labels["job_key"],
        "any": pd.Series("", index=labels.index),
    }
    rows = [row for side, keys in sides.items() for row in _rows(side, labels.assign(key=keys))]
    everything = _row("any", "", "", labels["slowdown"])
    return pd.DataFrame([*rows, everything], columns=COLUMNS)


def _rows(side: str, labels: pd.DataFrame) -> list[dict[str, object]]:
    groups = labels.groupby(["key", "gpu_model"])["slowdown"]
    return [
        _row(side, str(key), str(model), values)
        for (key, model), values in groups
        if len(values) >= MIN_ROWS
    ]


def _row(side: str, key: str, gpu_model: str, slowdowns: pd.Series) -> dict[str, object]:
    values = slowdowns.to_numpy(np.float64)
    lower, upper = residual_quantiles(values)
    parts = (side, key, gpu_model, float(np.median(values)), lower, upper, len(values))
    return dict(zip(COLUMNS, parts, strict=True))
