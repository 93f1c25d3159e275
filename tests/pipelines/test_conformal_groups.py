"""Intervals that hold in each group, known or new."""

import numpy as np
import pytest

from pipelines.conformal import tail_quantiles
from pipelines.conformal_groups import (
    WIDEST,
    cross_group_intervals,
    known_groups,
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


def test_each_fold_has_the_intervals_of_its_groups_from_the_others():
    random = np.random.default_rng(2)
    names = np.tile(np.repeat(["calm", "wild"], 100), 3)
    residuals = random.normal(size=600) * np.where(names == "wild", 1.6, 0.8)
    folds = np.repeat(["0", "1", "2"], 200)
    low, high = cross_group_intervals(residuals, folds, names)
    rest = folds != "0"
    _, groups = known_groups(residuals[rest], names[rest])
    own = (folds == "0") & (names == "wild")
    assert set(zip(low[own], high[own], strict=True)) == {groups["wild"]}


def test_folds_of_new_groups_have_the_tails_that_are_asked_for():
    residuals, folds = np.tile(np.arange(99.0), 2), np.repeat(["0", "1"], 99)
    low, high = cross_group_intervals(residuals, folds, folds, (0.02, 0.08))
    assert (low[0], high[0]) == tail_quantiles(np.arange(99.0), 0.02, 0.08)
