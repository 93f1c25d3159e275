"""Learning how strongly effects are shared."""

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import check_grad

from features.effect_jobs import effect_jobs, stand
from features.effect_kernel import COMPONENT_NAMES, EffectRows
from features.effects import effect_estimates
from pipelines.interference.effects_fit import (
    Sharing,
    _objective,
    _prior_mean,
    _stack,
    fitted_effects,
    noise_levels,
)

JOBS = 10


def profiles(gpu_models: int = 1):
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "job_key": [f"m{at}" for at in range(JOBS)],
            "gpu_model": [f"gpu{at % gpu_models}" for at in range(JOBS)],
            "family": [f"f{at // 2}" for at in range(JOBS)],
            "gpu_util_mean": rng.uniform(0.2, 1, JOBS),
        }
    )


def measured(gpu_models: int = 1):
    """Return all pairs, and log slowdowns by sensitivity of the job and pressure of the other."""
    frame = profiles(gpu_models)
    job, neighbour = (each.ravel() for each in np.meshgrid(np.arange(JOBS), np.arange(JOBS)))
    same = job % gpu_models == neighbour % gpu_models
    rows = EffectRows(effect_jobs(frame, stand(frame)), job[same], neighbour[same])
    rng = np.random.default_rng(1)
    sensitivity, pressure = rng.uniform(0, 1, JOBS), rng.uniform(0, 1, JOBS)
    z = sensitivity[rows.job] + pressure[rows.neighbour] + rng.normal(0, 0.02, len(rows))
    return rows, z


@pytest.mark.parametrize("gpu_models", [1, 2])
def test_slope_of_the_likelihood_is_right(gpu_models):
    rows, z = measured(gpu_models)
    stack = _stack(rows, z - z.mean(), np.ones(len(rows)))
    theta = np.append(np.full(len(COMPONENT_NAMES) + 2, -3.0), 0.4)
    prior = _prior_mean(stack)
    error = check_grad(
        lambda at: _objective(at, stack, prior)[0], lambda at: _objective(at, stack, prior)[1],
        theta,
    )  # fmt: skip
    assert error < 1e-3


def test_sensitivity_and_pressure_of_jobs_are_learnt():
    rows, z = measured()
    learnt, held = np.arange(len(z)) % 3 != 0, np.arange(len(z)) % 3 == 0
    found = fitted_effects(
        rows.at(np.flatnonzero(learnt)), z[learnt], np.flatnonzero(learnt), seed=0
    )
    answers = effect_estimates(found, rows.at(np.flatnonzero(held)))
    assert ((answers - z[held]) ** 2).mean() < 0.1 * z[held].var()


def test_job_that_everyone_leaves_alike_has_little_noise():
    rows, z = measured()
    z = np.where(rows.job == 3, 0.0, z)
    level = noise_levels(rows, z)
    assert set(level[rows.job == 3]) == {0.02}
    assert set(level[rows.job != 3]) == {1.0}


def test_equal_slowdowns_of_all_pairs_are_no_error():
    rows, z = measured()
    found = fitted_effects(rows, np.zeros_like(z), np.arange(len(z)), seed=0)
    assert effect_estimates(found, rows) == pytest.approx(0, abs=1e-6)


def test_effects_that_there_may_not_be_have_no_variance():
    rows, z = measured()
    sharing = Sharing(("sensitivity_job", "pressure_job"), signal_scale=0.7)
    kernel = fitted_effects(rows, z, np.arange(len(z)), 0, sharing).kernel
    named = dict(zip(COMPONENT_NAMES, kernel.variances, strict=True))
    assert {name for name, variance in named.items() if variance} == set(sharing.components)
    assert kernel.signal_scale == 0.7
