"""Learn how strongly each effect is shared: variances by marginal likelihood."""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_solve, cholesky
from scipy.optimize import minimize

from features.effect_jobs import SIGNAL_SCALE, Floats
from features.effect_kernel import (
    COMPONENT_NAMES,
    EffectKernel,
    EffectRows,
    Positions,
    gpu_correlation,
    parts,
)
from features.effects import TINY_VARIANCE, Effects, effects

MOST_ROWS = 700  # that variances are learnt from; more change R² in the third digit only
ITERATIONS = 30
PRIOR_SHARE, PRIOR_SD = 0.05, 3.0  # of the total variance, and in log units: weak
START_TRANSFER = 0.5
CONSTANT_SD = 0.005  # of log slowdowns; a job below it was not disturbed measurably by anyone
CONSTANT_NOISE = 0.02
CONSTANT_ROWS = 5


@dataclass(frozen=True, slots=True)
class Sharing:
    """What jobs may share.

    Attributes
    ----------
    components : tuple of str
        Of ``COMPONENT_NAMES``; all others have no variance.
    signal_scale : float, > 0
        As in `likeness`.
    """

    components: tuple[str, ...] = COMPONENT_NAMES
    signal_scale: float = SIGNAL_SCALE


SHARING = Sharing()


@dataclass(frozen=True, slots=True)
class _Stack:
    """The parts of the covariance whose factors are learnt."""

    components: list[Floats]
    noises: list[Floats]
    other_gpu: Floats  # True where two pairs ran on different GPU models
    centred: Floats


def fitted_effects(
    rows: EffectRows,
    log_slowdown: Floats,
    groups: Positions,
    seed: int,
    sharing: Sharing = SHARING,
) -> Effects:
    """Return the effects in measured pairs.

    Parameters
    ----------
    rows : EffectRows, n pairs
    log_slowdown : float64 array of shape (n,)
    groups : intp array of shape (n,)
        Rows measured together; a large sample is thinned by whole groups.
    seed : int
    sharing : Sharing

    Notes
    -----
    Type-II maximum likelihood: Rasmussen and Williams, "Gaussian Processes for Machine
    Learning", MIT Press 2006, equations 5.8 and 5.9.
    """
    level = noise_levels(rows, log_slowdown)
    some = _thinned(groups, seed)
    mean = float(log_slowdown.mean())
    stack = _stack(rows.at(some), log_slowdown[some] - mean, level[some], sharing)
    kernel = _fitted_kernel(stack, sharing)
    return effects(kernel, mean, rows, log_slowdown, kernel.noise_variance(rows) * level)


def noise_levels(rows: EffectRows, log_slowdown: Floats) -> Floats:
    """Return the factor on each row's noise: small for jobs that all neighbours leave alike.

    Returns
    -------
    float64 array of shape (n,)
        1, or 0.02 for the rows of a job with five rows or more whose log slowdowns agree.
    """
    count = np.bincount(rows.job)
    mean = np.bincount(rows.job, log_slowdown) / np.maximum(count, 1)
    square = np.bincount(rows.job, (log_slowdown - mean[rows.job]) ** 2)
    sd = np.sqrt(square / np.maximum(count, 1))
    constant = (count >= CONSTANT_ROWS) & (sd < CONSTANT_SD)
    return np.where(constant[rows.job], CONSTANT_NOISE, 1.0)


def _thinned(groups: Positions, seed: int) -> Positions:
    if len(groups) <= MOST_ROWS:
        return np.arange(len(groups))
    names = np.random.default_rng(seed).permutation(np.unique(groups))
    share = MOST_ROWS / len(groups)
    return np.flatnonzero(np.isin(groups, names[: int(share * len(names))]))


def _fitted_kernel(stack: _Stack, sharing: Sharing) -> EffectKernel:
    start, low_high = _start(stack)
    found = minimize(
        _objective,
        start,
        args=(stack, _prior_mean(stack)),
        jac=True,
        method="L-BFGS-B",
        bounds=low_high,
        options={"maxiter": ITERATIONS},
    )
    factors = np.exp(found.x[:-1])
    variances = np.zeros(len(COMPONENT_NAMES))
    variances[np.isin(COMPONENT_NAMES, sharing.components)] = factors[:-2]
    transfer, (noise, idle_noise) = float(found.x[-1]), factors[-2:]
    return EffectKernel(variances, transfer, float(noise), float(idle_noise), sharing.signal_scale)


def _stack(rows: EffectRows, centred: Floats, level: Floats, sharing: Sharing = SHARING) -> _Stack:
    idle = 1 - rows.jobs.busy[rows.job]
    named = zip(COMPONENT_NAMES, parts(rows, rows, sharing.signal_scale), strict=True)
    return _Stack(
        components=[part for name, part in named if name in sharing.components],
        noises=[level, idle**2 * level],
        other_gpu=1 - gpu_correlation(rows, rows, 0.0),
        centred=centred,
    )


def _start(stack: _Stack) -> tuple[Floats, list[tuple[float, float]]]:
    variance = max(float(stack.centred.var()), TINY_VARIANCE)
    share = variance / len(stack.components)
    size = [max(float(np.diag(part).mean()), 1e-3) for part in stack.components]
    start = np.log([share / each for each in size] + [variance * 0.1] * len(stack.noises))
    bounds = [(np.log(variance) - 18.0, np.log(variance) + 5.0)] * len(start)
    several = bool(stack.other_gpu.any())
    fixed = (0.0, 1.0) if several else (START_TRANSFER, START_TRANSFER)
    return np.append(start, START_TRANSFER), [*bounds, fixed]


def _prior_mean(stack: _Stack) -> float:
    return float(np.log(max(stack.centred.var(), TINY_VARIANCE) * PRIOR_SHARE))


def _objective(theta: Floats, stack: _Stack, prior: float) -> tuple[float, Floats]:
    """Return the negative log posterior of the log factors and of the transfer, and its slope."""
    logs, transfer = theta[:-1], theta[-1]
    factors, n = np.exp(logs), len(stack.components)
    alike = np.zeros_like(stack.other_gpu)
    for factor, part in zip(factors, stack.components, strict=False):
        alike += factor * part
    mask = 1 - (1 - transfer) * stack.other_gpu
    covariance = alike * mask
    noise = factors[n:] @ np.stack(stack.noises)
    covariance[np.diag_indices(len(noise))] += noise + TINY_VARIANCE
    factor = cholesky(covariance, lower=True)
    inverse = cho_solve((factor, True), np.eye(len(noise)))
    pull = inverse @ stack.centred
    pushed = inverse - np.outer(pull, pull)
    value = 0.5 * stack.centred @ pull + np.log(np.diag(factor)).sum()
    value += 0.5 * (((logs - prior) / PRIOR_SD) ** 2).sum()
    masked = pushed * mask
    of_parts = [np.vdot(masked, part) for part in stack.components]
    of_noises = [np.diag(pushed) @ each for each in stack.noises]
    slope = factors / 2 * np.array(of_parts + of_noises) + (logs - prior) / PRIOR_SD**2
    of_transfer = 0.5 * np.vdot(pushed, alike * stack.other_gpu)
    return float(value), np.append(slope, of_transfer)
