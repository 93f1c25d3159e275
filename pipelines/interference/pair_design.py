"""What measuring a pair would tell of all other pairs, while pairs are chosen one after another."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from features.effect_jobs import Floats, stand
from features.effect_kernel import Positions
from features.effects import Effects, effect_covariance, effect_estimates
from serving.inference.interference_rows import effect_rows

SWAPPED = ["neighbour_key", "job_key", "gpu_model"]
MOST_TOLD = 1 - 1e-9  # of a variance; rounding must not tell more than everything


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

    def lowered(self) -> Floats:
        """Return by how much each pair's measurement would lower each variance, shape (2 n, n).

        Notes
        -----
        Both directions are measured at once: c' S^-1 c, with the covariance S of both
        measurements, noise included, and that of them and what is asked about, c.
        """
        n = len(self.is_left)
        first, second = self.covariance[:, :n], self.covariance[:, n:]
        total = np.diag(self.covariance) + self.noise
        shared = np.diag(self.covariance, n)
        determinant = total[:n] * total[n:] - shared**2
        square = total[n:] * first**2 + total[:n] * second**2 - 2 * shared * first * second
        return np.asarray(square / determinant)


Order = Callable[[PairDesign], Floats]
"""From what is left unknown to a number for each pair; the highest is measured next."""


def predictive_information(design: PairDesign) -> Floats:
    """Return what each pair's measurement would tell of all slowdowns to come, shape (n,).

    Parameters
    ----------
    design : PairDesign

    Notes
    -----
    Expected predictive information gain of a Gaussian process: Bickford Smith et al.,
    "Prediction-oriented Bayesian active learning", AISTATS 2023. -log(1 - rho²) of a measurement
    and of another pair's, noise included, summed over all pairs and both of their directions. Each
    counts by what an error of its logarithm is as a squared error of its slowdown. What tells most
    of the effects themselves spends measurements on jobs that hardly slow down.
    """
    told = design.lowered() / (np.diag(design.covariance) + design.noise)[:, None]
    return np.asarray(-design.weight @ np.log1p(-np.minimum(told, MOST_TOLD)))


def effect_information(design: PairDesign) -> Floats:
    """Return what each pair's measurement would tell of the effects themselves, shape (n,).

    Parameters
    ----------
    design : PairDesign

    Notes
    -----
    Greedy D-optimal design, both directions of a pair at once: the entropy criterion of Krause,
    Singh and Guestrin, "Near-optimal sensor placements in Gaussian processes", JMLR 2008.
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
