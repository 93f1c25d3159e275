"""What a scheduler would have lost by deciding on predictions instead of on what was observed."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

TINY = 1e-9


def queue_regret(predicted: ArrayLike, observed: ArrayLike) -> float:
    """Return the extra mean completion time of running jobs by predicted length, shortest first.

    Parameters
    ----------
    predicted, observed : array-like of shape (n,)
        Runtimes (s, > 0) of jobs that wait for one card.

    Returns
    -------
    float
        Mean completion time in the predicted order over that in the best order, less 1; NaN
        without jobs.

    Notes
    -----
    Shortest first is the best order: Smith, "Various optimizers for single-stage production",
    Naval Research Logistics Quarterly 1956.

    Examples
    --------
    >>> queue_regret([5, 6], [10, 20]), queue_regret([6, 5], [10, 20])
    (0.0, 0.25)
    """
    told, took = np.asarray(predicted, dtype=np.float64), np.asarray(observed, dtype=np.float64)
    if not len(took):
        return float("nan")
    replayed = np.cumsum(took[np.argsort(told, kind="stable")]).mean()
    return float(replayed / max(np.cumsum(np.sort(took)).mean(), TINY) - 1.0)


def neighbour_regret(jobs: Sequence[str], predicted: ArrayLike, observed: ArrayLike) -> float:
    """Return how much more jobs slow down beside the neighbour that was predicted to be the best.

    Parameters
    ----------
    jobs : sequence of str, length n
        Rows of one job are its possible neighbours.
    predicted, observed : array-like of shape (n,)
        Slowdowns (1 is none).

    Returns
    -------
    float
        Mean over jobs with a choice of the observed slowdown beside the chosen neighbour, less
        that beside the best; NaN without such a job.

    Examples
    --------
    >>> neighbour_regret(["a", "a", "b"], [1.2, 1.1, 1.0], [1.1, 1.5, 1.3])
    0.4
    """
    names, which = np.unique(np.asarray(jobs, dtype=np.str_), return_inverse=True)
    told, saw = np.asarray(predicted, dtype=np.float64), np.asarray(observed, dtype=np.float64)
    losses = []
    for job in range(len(names)):
        mine = which == job
        if mine.sum() > 1:
            losses.append(saw[mine][told[mine].argmin()] - saw[mine].min())
    return round(float(np.mean(losses)), 12) if losses else float("nan")
