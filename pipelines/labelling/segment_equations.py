"""Runs whose neighbours changed, as the equations they are: solved together for the slowdowns."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

Floats = NDArray[np.float64]
Together = tuple[str, ...]
"""Who was there at once; empty: nobody."""

CROWD_SD = 0.2  # of a crowd's log slowdown about the sum of its members'
OUTLIER_SDS = 3.0  # beyond, a run pulls no harder: it did not do the same work


@dataclass(frozen=True, slots=True)
class Equations:
    """The runs of one job key on one GPU model.

    Attributes
    ----------
    together : tuple of Together
        What was met in any run; the first is the empty one.
    seconds : array of shape (n_runs, n_together), float64
        How long each run spent so. A run that was alone throughout says what the baseline is.
    """

    together: tuple[Together, ...]
    seconds: Floats

    @property
    def neighbours(self) -> tuple[str, ...]:
        """Every job key that was met, sorted."""
        return tuple(sorted({key for met in self.together for key in met}))


@dataclass(frozen=True, slots=True)
class Prior:
    """What is assumed of a log slowdown that nothing was measured of.

    Attributes
    ----------
    mean, sd : float
        Over the pairs of a cluster.
    noise_sd : float
        Relative standard deviation of a run's time when it is repeated.
    """

    mean: float = float(np.log(1.2))
    sd: float = 0.5
    noise_sd: float = 0.05


@dataclass(frozen=True, slots=True)
class Solution:
    """The slowdowns of one job key on one GPU model.

    Attributes
    ----------
    log_baseline : float
        Of the seconds that the job takes alone.
    log_slowdown, log_sd : mapping of Together to float
        Estimate and its standard deviation; of being alone both are 0.
    known : mapping of Together to float
        Share of the prior's variance that the runs took away, in [0, 1]: near 0 the estimate
        is the prior, and says nothing.
    work : array of shape (n_runs, n_together)
        Share of each run's work that was done so; rows sum to 1.
    residuals : array of shape (n_runs,)
        Log of the work that a run did over the job's, in units of the noise.
    """

    log_baseline: float
    log_slowdown: Mapping[Together, float]
    log_sd: Mapping[Together, float]
    known: Mapping[Together, float]
    work: Floats
    residuals: Floats


def solved(equations: Equations, prior: Prior) -> Solution:
    """Return the slowdowns that explain all runs together.

    Parameters
    ----------
    equations : Equations
        At least one run that was alone throughout: without it, no baseline can be told.
    prior : Prior

    Returns
    -------
    Solution

    Notes
    -----
    A run spends d_s seconds beside s, at 1 / S_s of its speed alone. It ends when its work is
    done: sum over s of d_s / S_s = B. With noise in proportion, for every run

        log(sum over s of d_s exp(-log S_s)) = log B + e,    e ~ N(0, noise_sd).

    Unknown are log B and, for each neighbour, log S ~ N(mean, sd); a crowd's log S is the sum of
    its members' and a term of its own ~ N(0, 0.2). The most probable values are found by least
    squares (Gauss-Newton; the derivative by log S_s is minus the share of work done beside s),
    and their covariance from the curvature there (Laplace). Runs off by more than 3 sd count
    less (Huber). Where the runs disagree by more than their noise, all deviations grow by as
    much (Birge).

    Examples
    --------
    10 s alone; 6 s alone and 8 s beside *b* is 4 s of work in 8 s: slowed down by 2.

    >>> found = solved(Equations(((), ("b",)), np.array([[10.0, 0.0]] * 20 + [[6.0, 8.0]] * 20)),
    ...     Prior())
    >>> round(float(np.exp(found.log_slowdown[("b",)])), 1), round(found.known[("b",)], 2)
    (2.0, 0.99)
    """
    design = _design(equations)
    spread = _spreads(equations, prior)
    start = np.concatenate([[_log_baseline(equations)], np.zeros(design.shape[1])])
    start[1 : 1 + len(equations.neighbours)] = prior.mean
    centre = start[1:].copy()
    within = np.ones(len(equations.seconds))

    def misfits(x: Floats) -> Floats:
        data = (_log_work(equations, design @ x[1:]) - x[0]) / prior.noise_sd
        return np.concatenate([within * data, (x[1:] - centre) / spread])

    def slopes(x: Floats) -> Floats:
        data = np.column_stack([np.ones(len(within)), _work(equations, design @ x[1:]) @ design])
        data *= -within[:, None] / prior.noise_sd
        return np.vstack([data, np.column_stack([np.zeros(len(spread)), np.diag(1 / spread)])])

    x = start
    for _ in range(3):  # each time with less weight on what lies far off
        x = least_squares(misfits, x, jac=slopes, method="lm" if len(x) > 1 else "trf").x
        data = (_log_work(equations, design @ x[1:]) - x[0]) / prior.noise_sd
        within = np.sqrt(np.minimum(1.0, OUTLIER_SDS / np.maximum(np.abs(data), 1e-12)))
    curvature = slopes(x)
    inverse = np.linalg.inv(curvature.T @ curvature)[1:, 1:] * _birge(within * data, len(x))
    return _solution(equations, design, x, np.asarray(inverse, np.float64), prior)


def _solution(
    equations: Equations, design: Floats, x: Floats, covariance: Floats, prior: Prior
) -> Solution:
    logs = design @ x[1:]
    variance = np.einsum("ij,jk,ik->i", design, covariance, design)
    before = (design * _spreads(equations, prior)) ** 2
    prior_variance = np.maximum(before.sum(axis=1), 1e-12)
    data = (_log_work(equations, logs) - x[0]) / prior.noise_sd
    known = np.clip(1 - variance / prior_variance, 0.0, 1.0)
    return Solution(
        log_baseline=float(x[0]),
        log_slowdown=dict(zip(equations.together, logs.tolist(), strict=True)),
        log_sd=dict(zip(equations.together, np.sqrt(variance).tolist(), strict=True)),
        known=dict(zip(equations.together, known.tolist(), strict=True)),
        work=_work(equations, logs),
        residuals=data,
    )


def learnt_prior(prior: Prior, solutions: Sequence[Solution]) -> Prior:
    """Return the prior that the solutions suggest: one step of expectation-maximisation.

    Parameters
    ----------
    prior : Prior
        Under which they were found.
    solutions : sequence of Solution

    Returns
    -------
    Prior
        Mean and sd over all pairs, each with its own uncertainty; the noise is kept. With fewer
        than three pairs it is `prior`.

    Notes
    -----
    Empirical Bayes with Gaussian posteriors: Dempster, Laird and Rubin, "Maximum likelihood from
    incomplete data via the EM algorithm", JRSS B 1977.
    """
    pairs = [
        (value, one.log_sd[met])
        for one in solutions
        for met, value in one.log_slowdown.items()
        if len(met) == 1
    ]
    if len(pairs) < 3:
        return prior
    values, sds = np.array(pairs).T
    mean = float(values.mean())
    sd = float(np.sqrt(np.mean((values - mean) ** 2 + sds**2)))
    return Prior(mean, max(sd, 2 * prior.noise_sd), prior.noise_sd)


def _log_work(equations: Equations, logs: Floats) -> Floats:
    done: Floats = np.log((equations.seconds * np.exp(-logs)).sum(axis=1))
    return done


def _work(equations: Equations, logs: Floats) -> Floats:
    done = equations.seconds * np.exp(-logs)
    share: Floats = done / done.sum(axis=1, keepdims=True)
    return share


def _log_baseline(equations: Equations) -> float:
    alone = equations.seconds[(equations.seconds[:, 1:] == 0).all(axis=1), 0]
    return float(np.median(np.log(alone)))


def _design(equations: Equations) -> Floats:
    """Return which unknowns add up to each log slowdown: neighbours, then one for each crowd."""
    place = {key: column for column, key in enumerate(equations.neighbours)}
    crowds = [met for met in equations.together if len(met) > 1]
    design = np.zeros((len(equations.together), len(place) + len(crowds)))
    for row, met in enumerate(equations.together):
        for key in met:
            design[row, place[key]] += 1.0
        if len(met) > 1:
            design[row, len(place) + crowds.index(met)] = 1.0
    return design


def _spreads(equations: Equations, prior: Prior) -> Floats:
    crowds = sum(len(met) > 1 for met in equations.together)
    return np.array([prior.sd] * len(equations.neighbours) + [CROWD_SD] * crowds)


def _birge(misfits: Floats, unknowns: int) -> float:
    freedom = len(misfits) - unknowns
    return max(1.0, float((misfits**2).sum()) / freedom) if freedom > 0 else 1.0
