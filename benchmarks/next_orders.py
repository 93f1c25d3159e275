"""Orders in which pairs may be measured, of which one is shipped."""

from collections.abc import Mapping

import numpy as np

from features.effect_jobs import Floats
from pipelines.interference.pair_design import Order, PairDesign, effect_information

RANDOM, SHIPPED = "at random", "the same, both directions at once"
MOST_TOLD = 1 - 1e-9  # of a variance; rounding must not tell more than everything


def lowered(design: PairDesign) -> Floats:
    """Return by how much each pair's measurement would lower each variance, shape (2 n, n).

    Notes
    -----
    Both directions are measured at once: c' S^-1 c, with the covariance S of both
    measurements, noise included, and that of them and what is asked about, c.
    """
    n = len(design.is_left)
    first, second = design.covariance[:, :n], design.covariance[:, n:]
    total = np.diag(design.covariance) + design.noise
    shared = np.diag(design.covariance, n)
    determinant = total[:n] * total[n:] - shared**2
    square = total[n:] * first**2 + total[:n] * second**2 - 2 * shared * first * second
    return np.asarray(square / determinant)


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
    told = lowered(design) / (np.diag(design.covariance) + design.noise)[:, None]
    return np.asarray(-design.weight @ np.log1p(-np.minimum(told, MOST_TOLD)))


def least_variance(design: PairDesign) -> Floats:
    """Return by how much the sum of variances falls, on the scale of slowdowns (A-optimal)."""
    return np.asarray(design.weight @ lowered(design))


def least_log_variance(design: PairDesign) -> Floats:
    """Return by how much the sum of variances of the logarithm falls (A-optimal)."""
    return lowered(design).sum(axis=0)


def largest_variance(design: PairDesign) -> Floats:
    """Return the variance beside noise, of the direction where it is larger."""
    known = np.diag(design.covariance) / design.noise
    n = len(design.is_left)
    return np.maximum(known[:n], known[n:])


def weighed(power: float) -> Order:
    """Return `predictive_information` with pairs counted by their slowdown to some power."""

    def order(design: PairDesign) -> Floats:
        weight = design.weight ** (power / 2)
        return predictive_information(
            PairDesign(design.covariance, design.noise, weight, design.is_left)
        )

    return order


ORDERS: Mapping[str, Order | None] = {
    RANDOM: None,
    "least sum of variances, of slowdowns": least_variance,
    "least sum of variances, of the logarithm": least_log_variance,
    "largest variance beside noise": largest_variance,
    SHIPPED: effect_information,
    "most told of all pairs, each counting alike": weighed(0),
    "the same, by squared slowdown": predictive_information,
    "the same, by its fourth power": weighed(4),
}
CLOSEST = (SHIPPED, "the same, by squared slowdown", "the same, by its fourth power")
