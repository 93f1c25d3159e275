"""How fast two workloads run on one card, from measured pairs alone."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from data.errors import TableError

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class GroundTruth:
    """What happens when two workloads share a card; what a replay runs by.

    Attributes
    ----------
    slowdown : array of shape (w, w), float64
        Entry (i, k): slowdown (>= 1) of workload i beside k.
    is_measured : array of shape (w, w), bool
        False where the slowdown is the assumption of `ground_truth`.
    fits : array of shape (w, w), bool
        Whether the GPU memory of both fits one card; symmetric.
    utilisation : array of shape (w,), float64
        Share of a card's time that the workload keeps busy when alone, in [0, 1].
    names : tuple of str, length w
    """

    slowdown: Floats
    is_measured: Flags
    fits: Flags
    utilisation: Floats
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MeasuredPairs:
    """Measured slowdowns: of workload `job` beside `neighbour`, each an index."""

    job: Sequence[int]
    neighbour: Sequence[int]
    slowdown: Sequence[float]


def slowdown_matrix(workloads: int, pairs: MeasuredPairs) -> tuple[Floats, Flags]:
    """Return the slowdown of every workload beside every other, and which were measured.

    A pair that was not measured runs, both of it, at the worst slowdown ever measured of either
    of the two, and of all workloads where one of them never was: it is never free. Nor does
    sharing speed anybody up: what was measured below 1 is noise and counts as 1.

    Parameters
    ----------
    workloads : int
        How many there are.
    pairs : MeasuredPairs
        Repeats of one ordered pair count by their mean.

    Raises
    ------
    TableError
        No pair at all, an index out of range, or a slowdown not above 0.

    Examples
    --------
    >>> slowdown_matrix(3, MeasuredPairs([0, 1, 0], [1, 0, 0], [1.2, 0.9, 1.5]))[0]
    array([[1.5, 1.2, 1.5],
           [1. , 1. , 1.5],
           [1.5, 1.5, 1.5]])
    """
    job, neighbour = np.asarray(pairs.job, np.int64), np.asarray(pairs.neighbour, np.int64)
    value = np.asarray(pairs.slowdown, np.float64)
    index = np.concatenate([job, neighbour])
    if not len(job) or index.min() < 0 or index.max() >= workloads or not (value > 0).all():
        raise TableError("pairs", "none, or one out of range", "indices and slowdowns above 0")
    total, count = np.zeros((workloads, workloads)), np.zeros((workloads, workloads))
    np.add.at(total, (job, neighbour), value)
    np.add.at(count, (job, neighbour), 1)
    is_measured = count > 0
    mean = np.maximum(1.0, np.divide(total, count, out=np.ones_like(total), where=is_measured))
    worst = np.where(is_measured, mean, 0.0).max(axis=1)
    worst[~is_measured.any(axis=1)] = worst.max()
    assumed = np.maximum(worst[:, None], worst[None, :])
    return np.where(is_measured, mean, assumed), is_measured


def fitting(gpu_mem_mib: Floats, card_mem_mib: int) -> Flags:
    """Return which workloads fit one card together.

    Examples
    --------
    >>> fitting(np.array([1000.0, 20000.0]), 24576)
    array([[ True,  True],
           [ True, False]])
    """
    both: Flags = gpu_mem_mib[:, None] + gpu_mem_mib[None, :] <= card_mem_mib
    return both
