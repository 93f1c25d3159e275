"""From a frame of values and bounds to the estimates of the domain."""

import pandas as pd

from data.domain import Estimate, Source


def estimates_from(frame: pd.DataFrame, version: str, source: Source) -> list[Estimate]:
    """Return one estimate a row, all of one version and source.

    Parameters
    ----------
    frame : DataFrame of shape (n, >= 4)
        ``value``, ``lower``, ``upper`` and ``in_domain``, as `interval_frame` gives them.
    version : str
    source : Source

    Examples
    --------
    >>> frame = pd.DataFrame({"value": [2.0], "lower": [1.0], "upper": [3.0], "in_domain": [True]})
    >>> estimates_from(frame, "m/1", Source.MODEL)[0].upper
    3.0
    """
    columns = (frame[name].tolist() for name in ("value", "lower", "upper", "in_domain"))
    return [
        Estimate(value, lower, upper, version, source, in_domain)
        for value, lower, upper, in_domain in zip(*columns, strict=True)
    ]
