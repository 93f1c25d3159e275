import numpy as np
import pandas as pd
import pytest

from pipelines.metrics import best_baseline, estimate_metrics, r2, rank_correlation


def estimates(value, lower=None, upper=None):
    value = np.array(value)
    lower = value if lower is None else lower
    upper = value if upper is None else upper
    return pd.DataFrame({"value": value, "lower": lower, "upper": upper})


def test_perfect_estimates():
    observed = np.array([1.0, 2.0, 4.0])
    found = estimate_metrics(observed, estimates(observed))
    assert (found["r2"], found["r2_log"], found["rank_correlation"]) == (1.0, 1.0, 1.0)
    assert (found["mae"], found["under_rate"], found["coverage_90"]) == (0.0, 0.0, 1.0)


def test_under_rate_allows_some_slack_above_the_bound():
    observed = np.array([1.04, 1.06])
    one = estimates([1.0, 1.0])
    assert estimate_metrics(observed, one)["under_rate"] == 1.0
    assert estimate_metrics(observed, one, slack=0.05)["under_rate"] == 0.5


def test_share_within_a_factor_of_two_counts_both_sides():
    found = estimate_metrics(np.array([1.0, 4.1, 0.49]), estimates([2.0, 2.0, 1.0]))
    assert found["within_2x"] == pytest.approx(1 / 3)


def test_width_is_relative_to_the_value():
    found = estimate_metrics(np.array([10.0]), estimates([10.0], [9.0], [12.0]))
    assert found["width_90_median"] == pytest.approx(0.3)


def test_no_rows_have_no_metrics():
    found = estimate_metrics(np.array([]), estimates([]))
    assert found.pop("n") == 0
    assert set(found.values()) == {None}


def test_scores_of_what_does_not_vary_are_undefined():
    same = np.array([2.0, 2.0])
    assert r2(same, same) is None
    assert rank_correlation(np.array([1.0, 2.0]), same) is None


def test_best_baseline_is_the_highest_that_is_defined():
    observed = np.array([1.0, 2.0, 3.0])
    found = best_baseline(observed, {"mean": np.full(3, 2.0), "near": observed + 0.1})
    assert found["baseline_r2"] == found["baseline_near_r2"] > found["baseline_mean_r2"] == 0.0
    assert best_baseline(np.ones(2), {"mean": np.ones(2)})["baseline_r2"] is None
