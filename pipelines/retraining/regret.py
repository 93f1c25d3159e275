"""What a scheduler would have lost by deciding on predictions instead of on what was observed."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
TINY = 1e-9


def queue_losses(predicted: ArrayLike, observed: ArrayLike) -> Floats:
    """Return how much later each job completes by predicted length, shortest first.

    Parameters
    ----------
    predicted, observed : array-like of shape (n,)
        Runtimes (s, > 0) of jobs that wait for one card.

    Returns
    -------
    float64 array of shape (n,)
        Completion time in the predicted order less that in the best order, over the mean of the
        latter. The mean is the regret of the queue; some jobs complete earlier.

    Notes
    -----
    Shortest first is the best order: Smith, "Various optimizers for single-stage production",
    Naval Research Logistics Quarterly 1956.

    Examples
    --------
    >>> queue_losses([5, 6], [10, 20]), queue_losses([6, 5], [10, 20])
    (array([0., 0.]), array([ 1. , -0.5]))
    """
    told, took = np.asarray(predicted, dtype=np.float64), np.asarray(observed, dtype=np.float64)
    best = _completed(took, took)
    return (_completed(told, took) - best) / max(best.mean(), TINY) if len(took) else best


def _completed(told: Floats, took: Floats) -> Floats:
    order = np.argsort(told, kind="stable")
    completed = np.empty(len(took))
    completed[order] = np.cumsum(took[order])
    return completed


def neighbour_losses(jobs: Sequence[str], predicted: ArrayLike, observed: ArrayLike) -> Floats:
    """Return how much more jobs slow down beside the neighbour that was predicted to be the best.

    Parameters
    ----------
    jobs : sequence of str, length n
        Rows of one job are its possible neighbours.
    predicted, observed : array-like of shape (n,)
        Slowdowns (1 is none).

    Returns
    -------
    float64 array, one for each job with a choice
        Observed slowdown beside the chosen neighbour, less that beside the best.

    Examples
    --------
    >>> neighbour_losses(["a", "a", "b"], [1.2, 1.1, 1.0], [1.1, 1.5, 1.3]).round(12)
    array([0.4])
    """
    names, which = np.unique(np.asarray(jobs, dtype=np.str_), return_inverse=True)
    told, saw = np.asarray(predicted, dtype=np.float64), np.asarray(observed, dtype=np.float64)
    losses = []
    for job in range(len(names)):
        mine = which == job
        if mine.sum() > 1:
            losses.append(saw[mine][told[mine].argmin()] - saw[mine].min())
    return np.array(losses, dtype=np.float64)
