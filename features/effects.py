"""Effects of jobs on each other's speed: a Gaussian process over log slowdowns.

Closed forms throughout: Rasmussen and Williams, "Gaussian Processes for Machine Learning", MIT
Press 2006, equations 2.23-2.26 and 5.12.
"""

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from features.effect_jobs import Floats, Names, likeness, same_gpu
from features.effect_kernel import (
    COMPONENTS,
    EffectKernel,
    EffectRows,
    Positions,
    pair_physics,
)

TINY_VARIANCE = 1e-6  # keeps the covariance invertible; far below any measured noise


@dataclass(frozen=True, slots=True)
class Effects:
    """What n measured pairs say of all pairs.

    Attributes
    ----------
    kernel : EffectKernel
    mean : float
        Log slowdown of a pair of which nothing is known.
    rows : EffectRows, n pairs
    log_slowdown : float64 array of shape (n,)
        As measured.
    noise : float64 array of shape (n,)
        Variance of each measurement.
    pull : float64 array of shape (n,)
        How strongly each measurement draws pairs like it away from the mean.
    """

    kernel: EffectKernel
    mean: float
    rows: EffectRows
    log_slowdown: Floats
    noise: Floats
    pull: Floats


def effects(
    kernel: EffectKernel, mean: float, rows: EffectRows, log_slowdown: Floats, noise: Floats
) -> Effects:
    """Return the effects that the measured pairs show.

    Parameters
    ----------
    kernel, mean, rows, log_slowdown, noise
        As in ``Effects``.
    """
    centred = log_slowdown - mean
    pull = np.linalg.solve(measured_covariance(kernel, rows, noise), centred)
    return Effects(kernel, mean, rows, log_slowdown, noise, np.asarray(pull, np.float64))


def measured_covariance(kernel: EffectKernel, rows: EffectRows, noise: Floats) -> Floats:
    """Return the covariance of the measurements, noise included, shape (n, n)."""
    covariance = kernel.covariance(rows, rows)
    covariance[np.diag_indices(len(rows))] += noise + TINY_VARIANCE
    return covariance


def adapted(learnt: Effects, rows: EffectRows, log_slowdown: Floats, noise: Floats) -> Effects:
    """Return the effects after more pairs were measured; the kernel stays as it is.

    Parameters
    ----------
    learnt : Effects
    rows : EffectRows, k pairs
        Of jobs old or new.
    log_slowdown : float64 array of shape (k,)
    noise : float64 array of shape (k,)
        Variance of each measurement.

    Returns
    -------
    Effects
        `learnt` itself for k = 0.
    """
    if not len(rows):
        return learnt
    return effects(
        learnt.kernel,
        learnt.mean,
        learnt.rows.followed_by(rows),
        np.concatenate([learnt.log_slowdown, log_slowdown]),
        np.concatenate([learnt.noise, noise]),
    )


def without_pairs(learnt: Effects, rows: EffectRows) -> Effects:
    """Return the effects less the measurements of pairs that are in `rows`, too.

    What pulls is that of all measurements still: to be `adapted` by those of `rows`.
    """
    kept = np.flatnonzero(~pair_names(learnt.rows).isin(pair_names(rows)))
    return replace(
        learnt,
        rows=learnt.rows.at(kept),
        log_slowdown=learnt.log_slowdown[kept],
        noise=learnt.noise[kept],
        pull=learnt.pull[kept],
    )


def pair_names(rows: EffectRows) -> pd.MultiIndex:
    """Return the names of each pair: job key, neighbour key and GPU model."""
    keys, gpu_models = rows.jobs.job_key, rows.jobs.gpu_model
    names = ("job_key", "neighbour_key", "gpu_model")
    columns = (keys[rows.job], keys[rows.neighbour], gpu_models[rows.job])
    return pd.MultiIndex.from_arrays(columns, names=names)


def effect_estimates(learnt: Effects, rows: EffectRows) -> Floats:
    """Return the expected log slowdown of each pair, shape (n,).

    Notes
    -----
    The pull of all measurements is summed up by pairs of jobs first, so that an answer costs
    a product of small matrices and not a pass over the measurements.
    """
    pull = pull_of_pairs(learnt)
    alike = likeness(rows.jobs, learnt.rows.jobs, learnt.kernel.signal_scale)
    on_gpu = learnt.kernel.transfer + (1 - learnt.kernel.transfer) * same_gpu(
        rows.jobs, learnt.rows.jobs
    )
    total = learnt.mean + _physics(learnt, rows)
    for neighbour, left in learnt.kernel.sides(alike).items():
        reach = (left * on_gpu) @ pull
        total += np.einsum("nm,nm->n", reach[rows.job], alike[neighbour][rows.neighbour])
    for each, variance in zip(COMPONENTS, learnt.kernel.variances, strict=False):
        if each.both_ways:
            reach = (alike[each.job] * on_gpu) @ ((pull + pull.T) * variance / 2)
            total += np.einsum("nm,nm->n", reach[rows.job], alike[each.job][rows.neighbour])
    return total


def effect_covariance(learnt: Effects, rows: EffectRows) -> Floats:
    """Return what is left unknown of each pair's effects, and how it hangs together.

    Returns
    -------
    float64 array of shape (n, n)
        Posterior covariance of the noise-free log slowdowns.
    """
    prior = learnt.kernel.covariance(rows, rows)
    if not len(learnt.rows):
        return prior
    shared = learnt.kernel.covariance(learnt.rows, rows)
    measured = measured_covariance(learnt.kernel, learnt.rows, learnt.noise)
    return np.asarray(prior - shared.T @ np.linalg.solve(measured, shared))


def left_out_estimates(learnt: Effects, groups: Positions) -> Floats:
    """Return what the other groups say of each measured pair, shape (n,).

    Parameters
    ----------
    learnt : Effects
    groups : intp array of shape (n,)
        Pairs that are left out together.

    Notes
    -----
    z_B - (C^-1_BB)^-1 (C^-1 (z - mean))_B for each group B: no refit.
    """
    inverse = np.linalg.inv(measured_covariance(learnt.kernel, learnt.rows, learnt.noise))
    return left_out_by(learnt, np.asarray(inverse, np.float64), groups)


def left_out_by(learnt: Effects, inverse: Floats, groups: Positions) -> Floats:
    """Return `left_out_estimates`, given the inverse covariance of the measurements."""
    result = np.empty(len(groups))
    order = np.argsort(groups, kind="stable")
    starts = np.flatnonzero(np.diff(groups[order], prepend=groups[order[:1]] - 1))
    for block in np.split(order, starts[1:]):
        result[block] = left_out(learnt, inverse, block)
    return result


def left_out(learnt: Effects, inverse: Floats, block: Positions) -> Floats:
    """Return what all other measured pairs say of those in `block`."""
    error = np.linalg.solve(inverse[np.ix_(block, block)], learnt.pull[block])
    return np.asarray(learnt.log_slowdown[block] - error)


def pull_of_pairs(learnt: Effects) -> Floats:
    """Return the pull of all measurements by slowed job and neighbour, shape (m, m)."""
    rows, m = learnt.rows, len(learnt.rows.jobs)
    pull = np.zeros((m, m))
    np.add.at(pull, (rows.job, rows.neighbour), learnt.pull)
    return pull


def physics_slopes(learnt: Effects, gpu_models: Names) -> dict[str, Floats]:
    """Return the slope of the log slowdown in ``pair_physics`` on each GPU model, shape (11,)."""
    seen = pair_physics(learnt.rows)
    of_seen = learnt.rows.jobs.gpu_model[learnt.rows.job]
    slopes = {}
    for name in gpu_models:
        weight = np.where(of_seen == name, 1.0, learnt.kernel.transfer)
        slopes[str(name)] = seen.T @ (learnt.pull * weight) * learnt.kernel.variances[-1]
    return slopes


def _physics(learnt: Effects, rows: EffectRows) -> Floats:
    shown = pair_physics(rows)
    result = np.zeros(len(rows))
    gpu_model = rows.jobs.gpu_model[rows.job]
    for name, slope in physics_slopes(learnt, np.unique(gpu_model)).items():
        result[gpu_model == name] = shown[gpu_model == name] @ slope
    return result
