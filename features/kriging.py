"""The mean of a level's finished jobs, weighed by how near in time they were submitted.

What a user submits together ends alike, and what was submitted a week ago says little. Kriging
weighs both by one covariance over the time between submissions, and shrinks to the prior where
nothing near is known.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
CHUNK = 4096  # rows a pass: 8 MiB a stack of matrices


@dataclass(frozen=True, slots=True)
class Kernel:
    """Covariance of two jobs' log runtimes over the time between their submissions.

    Attributes
    ----------
    variances : tuple of float
        Of each component (squares of log seconds).
    scales_s : tuple of float
        After which each component's covariance has halved.
    noise : float
        Variance of a job around its level, before any was seen.
    noise_jobs : float
        Jobs that this prior noise counts for, against the scatter that is seen.
    """

    variances: tuple[float, ...]
    scales_s: tuple[float, ...]
    noise: float
    noise_jobs: float

    @property
    def variance(self) -> float:
        """Variance of what the level's jobs have in common."""
        return sum(self.variances)

    def covariance(self, apart_s: Floats) -> Floats:
        """Return the covariance of jobs submitted so far apart; any shape."""
        parts = zip(self.variances, self.scales_s, strict=True)
        return np.asarray(sum(v / (1 + apart_s / scale_s) for v, scale_s in parts))


@dataclass(frozen=True, slots=True)
class Kriged:
    """What a level says of each of n jobs.

    Attributes
    ----------
    pull : float64 array of shape (n,)
        Expected residual, shrunk to 0 where little is known.
    weight : float64 array of shape (n,)
        Of the jobs together, in [0, 1]; the prior has what is missing to 1.
    explained : float64 array of shape (n,)
        Share of the level's variance that is known, in [0, 1].
    noise : float64 array of shape (n,)
        Variance of a single job that was reckoned with.
    """

    pull: Floats
    weight: Floats
    explained: Floats
    noise: Floats

    def where(self, mask: NDArray[np.bool_]) -> "Kriged":
        """Return a level that tells only of the rows where `mask` holds."""
        pull, weight, explained = (
            np.where(mask, part, 0.0) for part in (self.pull, self.weight, self.explained)
        )
        return Kriged(pull, weight, explained, self.noise)

    @classmethod
    def certain(cls, pull: Floats) -> "Kriged":
        """Return a level that leaves nothing open to coarser ones."""
        ones = np.ones_like(pull)
        return cls(pull, ones, ones, np.zeros_like(pull))


def kriged(residuals: Floats, submit_time: Floats, asked_time: Floats, kernel: Kernel) -> Kriged:
    """Predict residuals from the finished jobs of the same level.

    Parameters
    ----------
    residuals : float64 array of shape (n, size)
        Log runtime minus its prior, of up to `size` finished jobs; NaN where there is none, and
        none after the first NaN.
    submit_time : float64 array of shape (n, size), seconds
    asked_time : float64 array of shape (n,), seconds
        When the jobs asked about were submitted.
    kernel : Kernel

    Returns
    -------
    Kriged

    Notes
    -----
    Simple kriging, or Gaussian process regression: Rasmussen and Williams, "Gaussian Processes
    for Machine Learning", MIT Press 2006, equation 2.25; rational quadratic covariance with
    alpha 1 in the square root of time.
    """
    result = Kriged(*(np.zeros(len(residuals)) for _ in range(4)))
    result.noise[:] = kernel.noise
    some = np.flatnonzero(~np.isnan(residuals[:, 0]))
    for start in range(0, len(some), CHUNK):
        at = some[start : start + CHUNK]
        part = _kriged(residuals[at], submit_time[at], asked_time[at], kernel)
        result.pull[at], result.weight[at], result.explained[at], result.noise[at] = part
    return result


def _kriged(
    residuals: Floats, submit_time: Floats, asked_time: Floats, kernel: Kernel
) -> tuple[Floats, Floats, Floats, Floats]:
    seen = ~np.isnan(residuals)
    known = np.where(seen, residuals, 0.0)
    noise = _noise(known, seen, kernel)
    apart_s = np.abs(submit_time[:, :, None] - submit_time[:, None, :])
    covariance = np.where(seen[:, :, None] & seen[:, None, :], kernel.covariance(apart_s), 0.0)
    own = np.arange(residuals.shape[1])
    covariance[:, own, own] += np.where(seen, noise[:, None], 1.0)
    to_asked = np.where(seen, kernel.covariance(np.abs(submit_time - asked_time[:, None])), 0.0)
    weights = np.linalg.solve(covariance, to_asked[:, :, None])[:, :, 0]
    pull = (weights * known).sum(axis=1)
    explained = (weights * to_asked).sum(axis=1) / kernel.variance
    return pull, np.clip(weights.sum(axis=1), 0.0, 1.0), explained, noise


def _noise(known: Floats, seen: NDArray[np.bool_], kernel: Kernel) -> Floats:
    jobs = seen.sum(axis=1)
    mean = known.sum(axis=1) / jobs
    scatter = (np.where(seen, known - mean[:, None], 0.0) ** 2).sum(axis=1)
    noise = (kernel.noise_jobs * kernel.noise + scatter) / (kernel.noise_jobs + jobs - 1)
    return np.asarray(noise)
