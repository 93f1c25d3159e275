"""The noise of repeats and of self-pairs."""

import numpy as np
import pandas as pd
import pytest

from pipelines.labelling.audit_noise import ceiling_r2, repeat_sd, self_pair_rms

JOBS = 300


@pytest.fixture
def random():
    return np.random.default_rng(7)


def repeats(random, noise: float) -> pd.DataFrame:
    pace = np.repeat(np.geomspace(0.01, 100, JOBS), 3) * random.normal(1, noise, 3 * JOBS)
    keys = np.repeat(np.arange(JOBS), 3).astype("str")
    return pd.DataFrame({"job_key": keys, "gpu_model": "v100", "pace": pace, "measure": "jct_s"})


def selves(random, noise: float) -> pd.DataFrame:
    rows = 2 * JOBS
    pairs = np.arange(rows) // 2
    side, other = np.arange(rows) % 2, 1 - np.arange(rows) % 2
    return pd.DataFrame(
        {
            "run_id": [f"{pair}-{one}" for pair, one in zip(pairs, side, strict=True)],
            "neighbour_run_id": [f"{pair}-{one}" for pair, one in zip(pairs, other, strict=True)],
            "job_key": pairs.astype("str"),
            "neighbour_key": pairs.astype("str"),
            "slowdown": 1.5 + random.normal(0, noise, rows),
        }
    )


def test_repeats_give_the_relative_spread_whatever_the_length_of_the_job(random):
    runs = repeats(random, 0.02).assign(neighbour_key=None)
    assert repeat_sd(runs) == pytest.approx(0.02, rel=0.1)


def test_other_neighbours_and_measures_are_no_repeats(random):
    runs = repeats(random, 0.02)
    assert np.isnan(repeat_sd(runs.assign(neighbour_key=np.arange(3 * JOBS).astype("str"))))
    runs["measure"] = np.tile(["a", "b", "c"], JOBS)
    assert np.isnan(repeat_sd(runs.assign(neighbour_key=None)))


def test_self_pairs_give_the_noise_of_one_label(random):
    assert self_pair_rms(selves(random, 0.03)) == pytest.approx(0.03, rel=0.1)


def test_self_pair_with_one_side_is_none(random):
    one_side = selves(random, 0.03).iloc[::2]
    assert np.isnan(self_pair_rms(one_side))


def test_ceiling_is_what_a_perfect_model_reaches(random):
    truth = pd.Series(random.uniform(1, 2, 4000))
    measured = truth + random.normal(0, 0.1, 4000)
    r2 = 1 - ((measured - truth) ** 2).mean() / measured.var()
    assert ceiling_r2(measured, float("nan"), 0.1) == pytest.approx(r2, abs=0.01)


@pytest.mark.parametrize(
    ("slowdowns", "repeat", "self_pair"),
    [([1.0, 1.2], np.nan, np.nan), ([1.2], 0.1, 0.1), ([1.2, 1.2], 0.1, 0.1), ([], 0.1, 0.1)],
)
def test_ceiling_is_unknown_without_noise_or_spread(slowdowns, repeat, self_pair):
    assert np.isnan(ceiling_r2(pd.Series(slowdowns, dtype="float64"), repeat, self_pair))


def test_ceiling_is_never_below_zero():
    assert ceiling_r2(pd.Series([1.0, 1.01]), 0.5, float("nan")) == 0.0
