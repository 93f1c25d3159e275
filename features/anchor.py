"""A runtime told by counting alone: where the trees start, and what is left without them."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from features.kriging import Kriged

Floats = NDArray[np.float64]

LIMIT_SHARE_LOG = float(np.log(0.2))
"""Of their limit, jobs use a fifth: the median of DRAC (Popa and Alain, 2023)."""

UNKNOWN_RUNTIME_LOG = float(np.log(3600.0))
"""Without a limit and without history: an hour."""


def prior_log(limit_log: Floats) -> Floats:
    """Return what is guessed of a runtime before any job has finished, as log seconds.

    Parameters
    ----------
    limit_log : float64 array of shape (n,)
        Natural logarithm of the limit (s); NaN without.

    Examples
    --------
    >>> np.exp(prior_log(np.log([500.0, np.nan]))).round().tolist()
    [100.0, 3600.0]
    """
    return np.where(np.isnan(limit_log), UNKNOWN_RUNTIME_LOG, limit_log + LIMIT_SHARE_LOG)


def nested_pull(levels: Sequence[Kriged]) -> Floats:
    """Return the residual that nested levels expect together, finest first.

    Each level takes the place of the finer one's prior, with the weight that this has there.

    Parameters
    ----------
    levels : sequence of Kriged, each of n jobs, at least one

    Returns
    -------
    float64 array of shape (n,)

    Notes
    -----
    Hierarchical shrinkage, as in Gelman and Hill, "Data Analysis Using Regression and
    Multilevel/Hierarchical Models", Cambridge 2007, chapter 12.
    """
    pull = np.zeros_like(levels[0].pull)
    for level in reversed(levels):
        pull = level.pull + (1 - level.weight) * pull
    return pull
