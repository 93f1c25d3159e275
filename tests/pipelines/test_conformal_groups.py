"""Intervals that hold in each group, known or new."""

import numpy as np
import pytest

from pipelines.conformal import residual_quantiles
from pipelines.conformal_groups import (
    WIDEST,
    cross_group_intervals,
    known_groups,
    new_group_quantiles,
)


def held(quantiles, residuals):
    low, high = quantiles
    return float(((residuals >= low) & (residuals <= high)).mean())


def test_known_group_that_errs_more_is_held_as_often():
    random = np.random.default_rng(0)
    names = np.repeat(["calm", "usual", "wild"], 200)
    sizes = np.repeat([0.7, 1.0, 1.6], 200)
    _, groups = known_groups(random.normal(size=600) * sizes, names)
    for name, size in (("calm", 0.7), ("usual", 1.0), ("wild", 1.6)):
        assert held(groups[name], random.normal(size=5000) * size) == pytest.approx(0.9, abs=0.04)


def test_small_group_is_as_wide_as_the_rest():
    residuals = np.r_[np.linspace(-1, 1, 200), np.full(10, 9.0)]
    rest, groups = known_groups(residuals, np.repeat(["large", "small"], [200, 10]))
    assert set(groups) == {"large"}
    assert rest[1] > groups["large"][1]


def test_one_group_is_never_much_wider_than_all():
    residuals = np.r_[np.linspace(-1, 1, 900), np.linspace(-50, 50, 60)]
    rest, groups = known_groups(residuals, np.repeat(["many", "few"], [900, 60]))
    assert groups["few"] == (WIDEST * rest[0], WIDEST * rest[1])


def test_errors_of_nothing_but_zeros_have_no_width():
    assert known_groups(np.zeros(99), np.repeat("a", 99)) == ((0.0, 0.0), {"a": (0.0, 0.0)})


@pytest.mark.parametrize("groups", [1, 3])
def test_few_groups_say_no_more_than_their_rows(groups):
    residuals = np.random.default_rng(0).normal(size=60 * groups)
    names = np.repeat([str(at) for at in range(groups)], 60)
    assert new_group_quantiles(residuals, names) == residual_quantiles(residuals)


def test_new_group_is_held_where_groups_are_off_as_a_whole():
    random = np.random.default_rng(0)
    names = np.repeat([str(at) for at in range(8)], 60)
    cut, pooled = [], []
    for _ in range(40):
        shifts = random.normal(size=9)
        residuals = np.repeat(shifts[:8], 60) + random.normal(size=480) * 0.5
        fresh = shifts[8] + random.normal(size=200) * 0.5
        cut.append(held(new_group_quantiles(residuals, names), fresh))
        pooled.append(held(residual_quantiles(residuals), fresh))
    assert np.mean(cut) > 0.88 > np.mean(pooled)
    assert np.quantile(cut, 0.1) > np.quantile(pooled, 0.1)


def test_groups_that_err_alike_need_no_more_than_their_rows():
    random = np.random.default_rng(1)
    residuals, names = random.normal(size=800), np.repeat([str(at) for at in range(8)], 100)
    low, high = new_group_quantiles(residuals, names)
    assert (low, high) == pytest.approx(residual_quantiles(residuals), abs=0.35)


def test_each_fold_has_the_intervals_of_its_groups_from_the_others():
    random = np.random.default_rng(2)
    names = np.tile(np.repeat(["calm", "wild"], 100), 3)
    residuals = random.normal(size=600) * np.where(names == "wild", 1.6, 0.8)
    folds = np.repeat(["0", "1", "2"], 200)
    low, high = cross_group_intervals(residuals, folds, names, of_new=False)
    rest = folds != "0"
    _, groups = known_groups(residuals[rest], names[rest])
    own = (folds == "0") & (names == "wild")
    assert set(zip(low[own], high[own], strict=True)) == {groups["wild"]}
