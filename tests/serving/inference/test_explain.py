import numpy as np
import pytest

from serving.inference.explain import forest_contributions, profile_of
from tests.serving.conftest import interference_bundle
from tests.serving.structures import memory_bundle


@pytest.fixture(scope="module")
def bundle(profiles, pairs):
    return interference_bundle(profiles, pairs, 0.0)


def row(bundle, at=0):
    return np.array(bundle.spec.example_rows[at], dtype=np.float64)


@pytest.mark.parametrize("at", range(9))
def test_base_and_contributions_add_up_to_the_answer(bundle, at):
    base, parts = forest_contributions(bundle, row(bundle, at))
    total = base + sum(part.amount for part in parts)
    assert total == pytest.approx(float(bundle.predict(row(bundle, at)[None])[0]), abs=1e-12)


def test_largest_contribution_comes_first_and_the_rest_is_summed_up(bundle):
    _, parts = forest_contributions(bundle, row(bundle), shown=2)
    assert abs(parts[0].amount) >= abs(parts[1].amount)
    assert parts[2].feature == "rest"
    assert len(parts) == 3


def test_missing_input_is_shown_as_none(bundle):
    values = row(bundle)
    values[:] = np.nan
    _, parts = forest_contributions(bundle, values)
    assert {part.value for part in parts} <= {None}


def test_estimator_that_is_no_forest_has_a_base_only():
    bundle = memory_bundle()
    base, parts = forest_contributions(bundle, row(bundle))
    assert base == pytest.approx(bundle.spec.example_values[0])
    assert parts == ()


def test_profile_holds_what_was_measured(profiles):
    signals = profile_of(profiles, "k3", "v100")
    assert signals["gpu_mem_peak_mib"] == 400.0
    assert "sm_active_mean" not in signals  # the one that is missing
    assert profile_of(profiles, "k3", "other") == {}
