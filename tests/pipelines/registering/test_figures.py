import numpy as np
import pandas as pd
import pytest

from pipelines.registering import figures

PNG = b"\x89PNG\r\n\x1a\n"


def is_drawn(png):
    return png.startswith(PNG) and len(png) > 5000


@pytest.mark.parametrize("spread", [1.05, 2.0, 50.0, 1e4])
def test_predicted_against_measured_at_any_spread(spread):
    observed = np.geomspace(1.0, spread, 24)
    rows = pd.DataFrame({"value": observed * 1.1, "observed": observed})
    families = pd.Series([f"family {at}" for at in range(24)])  # more than there are colours
    assert is_drawn(figures.predicted_against_measured(rows, families, "t", "MiB", 0.03))


def test_values_of_zero_are_drawn_on_plain_axes():
    rows = pd.DataFrame({"value": [0.0, 0.5], "observed": [0.1, 0.4]})
    assert is_drawn(figures.predicted_against_measured(rows, pd.Series(["a", "b"]), "t", "ratio"))


def test_a_single_point_is_drawn():
    rows = pd.DataFrame({"value": [0.0], "observed": [0.0]})
    assert is_drawn(figures.predicted_against_measured(rows, pd.Series(["a"]), "t", "ratio"))


def test_residuals_and_coverage_by_group():
    groups = pd.Series(["a", "b", "b", "c"])
    assert is_drawn(figures.residuals_by_family(np.arange(4.0), groups, "t", "s"))
    assert is_drawn(figures.coverage_by_group(np.array([True, False] * 2), groups, 0.9, "t"))


@pytest.mark.parametrize("weights", [{"a": 0.5, "b": 0.0}, {"a": 0.0, "b": 0.0}])
def test_importance_of_some_and_of_no_features(weights):
    assert is_drawn(figures.importance(weights, "t"))


@pytest.mark.parametrize("keys", [3, 50])
def test_heat_map_of_jobs_or_of_families(keys):
    names = [f"job {at}" for at in range(keys)]
    labels = pd.DataFrame({"job_key": names, "neighbour_key": names[::-1], "slowdown": 1.2})
    labels = labels.assign(family="f", neighbour_family="g")
    assert is_drawn(figures.slowdown_heat_map(labels, "t"))


def test_learning_curve():
    assert is_drawn(figures.learning_curve([10, 20], {"new pairs": [0.1, np.nan]}, "t"))
