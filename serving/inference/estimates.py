"""From a frame of values and bounds to the estimates of the domain."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from data.domain import Estimate, Source
from data.errors import BadModelError
from serving.inference.bundle import Floats

LARGEST = 1e15
COLUMNS = ("value", "lower", "upper", "in_domain", "source")


def estimates_from(frame: pd.DataFrame, version: str) -> list[Estimate]:
    """Return one estimate a row, all of one version.

    Parameters
    ----------
    frame : DataFrame of shape (n, >= 5)
        ``value``, ``lower``, ``upper``, ``in_domain`` and ``source``, as every inference core
        gives them.
        Beyond ``LARGEST`` they are cut: JSON holds no infinity.
    version : str

    Raises
    ------
    BadModelError
        If a value or bound is NaN.

    Examples
    --------
    >>> frame = pd.DataFrame({"value": [2.0], "lower": [1.0], "upper": [3.0],
    ...     "in_domain": [True], "source": ["model"]})
    >>> estimates_from(frame, "m/1")[0].source
    <Source.MODEL: 'model'>
    """
    bounds = np.stack([frame[name].to_numpy(np.float64) for name in COLUMNS[:3]])
    in_domain = frame["in_domain"].to_numpy(np.bool_)
    return estimates_of(bounds, in_domain, frame["source"].tolist(), version)


def estimates_of(
    bounds: Floats, in_domain: NDArray[np.bool_], sources: Sequence[str], version: str
) -> list[Estimate]:
    """Return one estimate a row of arrays.

    Parameters
    ----------
    bounds : array of shape (3, n), float64
        Value, lower and upper.
    in_domain : array of shape (n,), bool
    sources : sequence of str, length n
    version : str

    Raises
    ------
    BadModelError
        If a value or bound is NaN.
    """
    if np.isnan(bounds).any():
        raise BadModelError(f"{version}: found an answer that is no number, wanted one a row")
    columns = (*np.clip(bounds, -LARGEST, LARGEST).tolist(), in_domain.tolist(), sources)
    return [
        Estimate(value, lower, upper, version, _SOURCES[source], is_inside)
        for value, lower, upper, is_inside, source in zip(*columns, strict=True)
    ]


_SOURCES = {str(source): source for source in Source}
