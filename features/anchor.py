"""A runtime told by counting alone: where the trees start, and what is left without them."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

LIMIT_SHARE_LOG = float(np.log(0.2))
"""Of their limit, jobs use a fifth: the median of DRAC (Popa and Alain, 2023)."""

UNKNOWN_RUNTIME_LOG = float(np.log(3600.0))
"""Without limit and history: an hour, with an interval that says how little that means."""

QUEUE_PRIOR_JOBS = 2.0
KEY_PRIOR_JOBS = 0.25


def anchor_log(features: Mapping[str, Floats]) -> Floats:
    """Return a first guess of each job's runtime: its limit, then its queue, then its key.

    Parameters
    ----------
    features : mapping of str to float64 array of shape (n,)
        ``limit_log``; ``<level>_jobs`` (log(1 + count)) and ``<level>_mean`` of the levels
        ``queue`` and ``key``.

    Returns
    -------
    float64 array of shape (n,)
        Natural logarithm of seconds, never NaN. The queue counts only where there is no limit.

    Notes
    -----
    Shrinkage of a mean to its prior, as by Efron and Morris, "Data Analysis Using Stein's
    Estimator and its Generalizations", JASA 1975.
    """
    limit = features["limit_log"]
    unlimited = _shrunk(
        np.full(len(limit), UNKNOWN_RUNTIME_LOG), features, "queue", QUEUE_PRIOR_JOBS
    )
    prior = np.where(np.isnan(limit), unlimited, limit + LIMIT_SHARE_LOG)
    return _shrunk(prior, features, "key", KEY_PRIOR_JOBS)


def _shrunk(prior: Floats, features: Mapping[str, Floats], level: str, prior_jobs: float) -> Floats:
    jobs = np.expm1(features[f"{level}_jobs"])
    mean = np.where(jobs > 0, features[f"{level}_mean"], prior)
    return np.asarray((jobs * mean + prior_jobs * prior) / (jobs + prior_jobs))
