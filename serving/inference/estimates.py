"""From a frame of values and bounds to the estimates of the domain."""

import pandas as pd

from data.domain import Estimate, Source
from data.errors import BadModelError

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
    bounds = frame[["value", "lower", "upper"]]
    if bounds.isna().to_numpy().any():
        raise BadModelError(f"{version}: found an answer that is no number, wanted one a row")
    frame = frame.assign(**bounds.clip(-LARGEST, LARGEST))
    columns = (frame[name].tolist() for name in COLUMNS)
    return [
        Estimate(value, lower, upper, version, _SOURCES[source], in_domain)
        for value, lower, upper, in_domain, source in zip(*columns, strict=True)
    ]


_SOURCES = {str(source): source for source in Source}
