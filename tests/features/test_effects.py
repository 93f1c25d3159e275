"""Effects: closed forms against the long way round."""

import numpy as np
import pandas as pd
import pytest

from features.effect_jobs import effect_jobs, stand
from features.effect_kernel import COMPONENT_NAMES, EffectKernel, EffectRows
from features.effect_sides import job_effects
from features.effect_tables import effect_tables, effects_from
from features.effects import (
    adapted,
    effect_estimates,
    effects,
    left_out_estimates,
    measured_covariance,
)

JOBS = 8


@pytest.fixture
def profiles():
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "job_key": [f"model{at // 2}/set/b{2 ** (at + 3)}/{'amp' if at % 2 else 'fp32'}"
                        for at in range(JOBS)],
            "gpu_model": ["v100"] * 6 + ["p100"] * 2,
            "family": [f"model{at // 2}" for at in range(JOBS)],
            "sm_active_mean": rng.uniform(0.2, 1, JOBS),
            "dram_active_mean": [*rng.uniform(0.1, 0.8, JOBS - 1), np.nan],
        }
    )  # fmt: skip


@pytest.fixture
def kernel():
    variances = np.random.default_rng(1).uniform(0.01, 0.1, len(COMPONENT_NAMES))
    return EffectKernel(variances, transfer=0.4, noise=0.01, idle_noise=0.02)


def pairs(profiles, seed, n):
    """Return n random pairs of jobs on the same GPU model."""
    rng = np.random.default_rng(seed)
    job = rng.integers(0, JOBS, n)
    neighbour = np.where(job < 6, rng.integers(0, 6, n), rng.integers(6, 8, n))
    return EffectRows(effect_jobs(profiles, stand(profiles)), job, neighbour)


@pytest.fixture
def learnt(profiles, kernel):
    rows = pairs(profiles, 2, 30)
    z = np.random.default_rng(3).normal(0.2, 0.3, 30)
    return effects(kernel, 0.2, rows, z, kernel.noise_variance(rows))


def test_answers_equal_those_through_the_full_covariance(learnt, profiles):
    asked = pairs(profiles, 4, 50)
    long_way = learnt.mean + learnt.kernel.covariance(asked, learnt.rows) @ learnt.pull
    assert effect_estimates(learnt, asked) == pytest.approx(long_way, abs=1e-12)


def test_leaving_a_group_out_equals_learning_without_it(learnt):
    groups = np.arange(30) % 7
    rest, block = np.flatnonzero(groups != 3), np.flatnonzero(groups == 3)
    without = effects(
        learnt.kernel, learnt.mean, learnt.rows.at(rest), learnt.log_slowdown[rest],
        learnt.noise[rest],
    )  # fmt: skip
    expected = effect_estimates(without, learnt.rows.at(block))
    assert left_out_estimates(learnt, groups)[block] == pytest.approx(expected, abs=1e-5)


def test_no_measured_pair_changes_nothing(learnt, profiles):
    asked = pairs(profiles, 4, 50)
    same = adapted(learnt, pairs(profiles, 5, 0), np.empty(0), np.empty(0))
    assert np.abs(effect_estimates(same, asked) - effect_estimates(learnt, asked)).max() < 1e-12


def test_measured_pairs_equal_learning_them_from_the_start(learnt, profiles):
    rows, z = pairs(profiles, 6, 4), np.array([0.9, 0.8, 0.7, 0.6])
    moved = adapted(learnt, rows, z, learnt.kernel.noise_variance(rows))
    both = learnt.rows.followed_by(rows)
    anew = effects(
        learnt.kernel, learnt.mean, both, np.concatenate([learnt.log_slowdown, z]),
        np.concatenate([learnt.noise, learnt.kernel.noise_variance(rows)]),
    )  # fmt: skip
    asked = pairs(profiles, 7, 20)
    assert effect_estimates(moved, asked) == pytest.approx(effect_estimates(anew, asked))


def test_a_measured_pair_draws_its_answer_towards_itself(learnt, profiles):
    one = pairs(profiles, 8, 1)
    before = effect_estimates(learnt, one)[0]
    after = effect_estimates(
        adapted(learnt, one, np.array([before + 1]), learnt.kernel.noise_variance(one)), one
    )[0]
    assert before + 0.3 < after < before + 1


def test_covariance_is_symmetric_and_positive(learnt):
    found = measured_covariance(learnt.kernel, learnt.rows, learnt.noise)
    assert found == pytest.approx(found.T)
    assert np.linalg.eigvalsh(found).min() > 0


def test_effects_on_another_gpu_model_count_for_less(kernel, profiles):
    jobs = effect_jobs(profiles.assign(job_key="a", family="a", dram_active_mean=0.2,
                                       sm_active_mean=0.5), stand(profiles))  # fmt: skip
    rows = EffectRows(jobs, np.array([0, 7]), np.array([1, 6]))
    found = kernel.covariance(rows, rows)
    assert found[0, 1] == pytest.approx(0.4 * found[0, 0])


def test_tables_hold_everything(learnt, profiles):
    missing = stand(profiles)
    again, read = effects_from(effect_tables(learnt, missing))
    asked = pairs(profiles, 9, 10)
    assert read == missing
    assert effect_estimates(again, asked).tolist() == effect_estimates(learnt, asked).tolist()


def test_tables_of_older_versions_share_over_the_distance_that_they_were_learnt_with(
    learnt, profiles
):
    tables = effect_tables(learnt, stand(profiles))
    older = tables["effect_kernel"].query("name != 'signal_scale'")
    assert effects_from(tables | {"effect_kernel": older})[0].kernel.signal_scale == 0.3
    assert effects_from(tables)[0].kernel.signal_scale == learnt.kernel.signal_scale


def test_a_missing_signal_is_taken_for_the_median(profiles):
    jobs = effect_jobs(profiles, stand(profiles))
    assert jobs.dram[-1] == pytest.approx(profiles["dram_active_mean"].median())


def test_profiles_without_any_signal_are_all_alike():
    bare = pd.DataFrame({"job_key": ["a", "b"], "gpu_model": "cpu", "family": ["f", "g"]})
    jobs = effect_jobs(bare, stand(bare))
    for values in (jobs.busy, jobs.dram, jobs.log2_batch):
        assert values == pytest.approx(0.5)


def test_answers_laid_out_by_job_are_the_same(learnt, profiles):
    asked = pairs(profiles, 4, 200)
    by_job = job_effects(learnt, asked.jobs).estimates(asked)
    assert by_job == pytest.approx(effect_estimates(learnt, asked), abs=1e-12)


def test_jobs_of_unknown_families_are_laid_out_too(learnt, profiles):
    strange = profiles.assign(
        family="new", job_key=[f"new/{at}" for at in range(JOBS)], gpu_model="k80"
    )
    jobs = effect_jobs(strange, stand(profiles))
    asked = EffectRows(jobs, np.array([0, 1, 2]), np.array([2, 1, 0]))
    by_job = job_effects(learnt, jobs).estimates(asked)
    assert by_job == pytest.approx(effect_estimates(learnt, asked), abs=1e-12)
