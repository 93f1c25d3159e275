"""What is left unknown of pairs, while they are chosen one after another."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from features.effect_jobs import Floats, stand
from features.effect_kernel import Positions
from features.effects import Effects, effect_covariance, effect_estimates
from serving.inference.interference_rows import effect_rows

SWAPPED = ["neighbour_key", "job_key", "gpu_model"]


@dataclass(slots=True)
class PairDesign:
    """What is left unknown of both directions of n open pairs.

    Attributes
    ----------
    covariance : float64 array of shape (2 n, 2 n)
        Of noise-free log slowdowns: of the first directions, then of the second ones.
    noise : float64 array of shape (2 n,)
        Variance of one measurement of the log slowdown.
    weight : float64 array of shape (2 n,)
        From squared errors of log slowdowns to those of slowdowns.
    is_left : intp array of shape (n,)
        1 for a pair that is not measured yet, else 0.
    """

    covariance: Floats
    noise: Floats
    weight: Floats
    is_left: Positions

    def error(self) -> float:
        """Return the expected squared error of slowdowns, summed over both directions."""
        return float(np.diag(self.covariance) @ self.weight)

    def best(self, order: "Order") -> int:
        """Return the position of the pair that comes first by some order."""
        return int(np.argmax(np.where(self.is_left, order(self), -np.inf)))

    def measure(self, at: int) -> None:
        """Take both directions of a pair as measured."""
        for row in (at, at + len(self.is_left)):
            column = self.covariance[:, row]
            self.covariance -= np.outer(column, column) / (column[row] + self.noise[row])
        self.is_left[at] = 0


Order = Callable[[PairDesign], Floats]
"""From what is left unknown to a number for each pair; the highest is measured next."""


def effect_information(design: PairDesign) -> Floats:
    """Return what each pair's measurement would tell of the effects themselves, shape (n,).

    Parameters
    ----------
    design : PairDesign

    Notes
    -----
    Greedy D-optimal design, both directions of a pair at once: the entropy criterion of Krause,
    Singh and Guestrin, "Near-optimal sensor placements in Gaussian processes", JMLR 2008. To lower
    the sum of the variances instead (A-optimal) trusts how effects are shared more than can be
    learnt from few pairs; what tells most of all other pairs is no better, nor worse, and takes
    longer: ``benchmarks.quality_next`` and ``docs/results.md``.
    """
    n, noise = len(design.is_left), design.noise
    known = np.diag(design.covariance) / noise
    shared = np.diag(design.covariance, n) ** 2 / (noise[:n] * noise[n:])
    return np.asarray((1 + known[:n]) * (1 + known[n:]) - shared)


def pair_design(learnt: Effects, open_pairs: pd.DataFrame, profiles: pd.DataFrame) -> PairDesign:
    """Return what is left unknown of some pairs.

    Parameters
    ----------
    learnt : Effects
    open_pairs : DataFrame of shape (n, 3)
        ``job_key``, ``neighbour_key`` and ``gpu_model``, each pair once in either direction.
    profiles : DataFrame, ``data.schemas.PROFILES``
    """
    swapped = open_pairs[SWAPPED].set_axis(open_pairs.columns, axis="columns")
    rows = effect_rows(profiles, pd.concat([open_pairs, swapped]), stand(profiles))
    return PairDesign(
        effect_covariance(learnt, rows),
        learnt.kernel.noise_variance(rows),
        np.exp(2 * effect_estimates(learnt, rows)),
        np.ones(len(open_pairs), dtype=np.intp),
    )
