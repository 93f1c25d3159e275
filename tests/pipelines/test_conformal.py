import numpy as np
import pandas as pd
import pytest

from pipelines.conformal import (
    DEFAULT_OUTSIDE,
    calibration,
    cross_intervals,
    outside_factor,
    residual_quantiles,
    with_small_groups,
)


def test_quantiles_cover_what_they_promise():
    random = np.random.default_rng(0)
    inside = []
    for _ in range(300):
        low, high = residual_quantiles(random.normal(size=50), 0.9)
        fresh = random.normal(size=200)
        inside.append(((fresh >= low) & (fresh <= high)).mean())
    # With 50 rows the finite-sample correction promises 0.9 to 0.9 + 2 / 51.
    assert 0.89 < np.mean(inside) < 0.95


def test_small_groups_get_the_default():
    names = pd.Series(["large"] * 80 + ["small"] * 10)
    residuals = np.concatenate([np.linspace(-1, 1, 80), np.full(10, 9.0)])
    found = calibration(residuals, [names])
    assert set(found.groups) == {"large"}
    assert found.default == (residual_quantiles(residuals))
    assert found.groups["large"][1] <= 1.0


@pytest.mark.parametrize("rows", [20, 59])
def test_a_small_group_that_errs_more_is_covered_as_promised(rows):
    coarse = pd.Series(["a"] * (300 + rows))
    fine = pd.Series(["a/old"] * 300 + ["a/new"] * rows)
    inside = []
    for seed in range(60):
        random = np.random.default_rng(seed)
        errors = np.append(random.normal(0, 0.1, 300), random.normal(0.3, 0.5, rows))
        found = with_small_groups(calibration(errors, [coarse, fine]), errors, coarse, fine, 10)
        low, high = found.groups["a/new"]
        fresh = random.normal(0.3, 0.5, 500)
        inside.append(((fresh >= low) & (fresh <= high)).mean())
    assert np.mean(inside) > 0.88


def test_a_small_group_never_narrows_an_interval_and_a_tiny_one_says_nothing():
    coarse = pd.Series(["a"] * 90)
    fine = pd.Series(["a/old"] * 70 + ["a/new"] * 15 + ["a/tiny"] * 5)
    errors = np.concatenate([np.linspace(-1, 1, 70), np.zeros(15), np.full(5, 9.0)])
    known = calibration(errors, [coarse, fine])
    found = with_small_groups(known, errors, coarse, fine, 10)
    assert found.groups["a/new"] == known.groups["a"]
    assert found.groups.keys() == {"a", "a/old", "a/new"}


def test_default_and_width_outside_can_be_given():
    found = calibration(np.zeros(5), [], default=(-2.0, 3.0), outside=1.7)
    assert (found.default, found.outside, found.level) == ((-2.0, 3.0), 1.7, 0.9)


def test_intervals_of_a_fold_rest_on_the_others():
    residuals = np.concatenate([np.zeros(100), np.full(100, 5.0)])
    low, high = cross_intervals(residuals, pd.Series(["a"] * 100 + ["b"] * 100))
    assert set(high[:100]) == {5.0}
    assert set(low[100:]) == {0.0}


def test_intervals_follow_the_finest_group_that_is_large_enough():
    folds = pd.Series(["a", "b"] * 200)
    coarse = pd.Series(["x"] * 400)
    fine = pd.Series(["x/1"] * 200 + ["x/2"] * 200)
    residuals = np.concatenate([np.full(200, 1.0), np.full(200, 2.0)])
    _, high = cross_intervals(residuals, folds, [coarse, fine])
    assert high.tolist() == residuals.tolist()


def test_rows_of_a_single_fold_get_their_own_quantiles():
    low, high = cross_intervals(np.array([1.0, 2.0]), pd.Series(["a", "a"]))
    assert (low.tolist(), high.tolist()) == ([1.0, 1.0], [2.0, 2.0])


@pytest.mark.parametrize(("outer", "factor"), [(0.5, 1.0), (2.0, 2.0), (50.0, 4.0)])
def test_outside_is_as_much_wider_as_errors_are_larger(outer, factor):
    residuals = np.concatenate([np.full(50, 1.0), np.full(50, -outer)])
    assert outside_factor(residuals, np.repeat([True, False], 50)) == factor


def test_outside_is_a_guess_where_nothing_lay_there():
    assert outside_factor(np.ones(50), np.ones(50, dtype=bool)) == DEFAULT_OUTSIDE
    assert outside_factor(np.zeros(100), np.repeat([True, False], 50)) == DEFAULT_OUTSIDE
