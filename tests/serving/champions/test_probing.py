from dataclasses import replace

import numpy as np
import pytest
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import Ridge

from data.errors import BadModelError
from serving.champions.probing import probe_rows, probed
from serving.forest.check import with_compiled_forest
from serving.forest.compiled import compiled
from tests.serving.conftest import interference_bundle


@pytest.fixture(scope="module")
def bundle(profiles, pairs):
    return interference_bundle(profiles, pairs, 0.0)


def test_probes_hold_the_stored_examples_and_gaps(bundle):
    rows = probe_rows(bundle.spec)
    stored = np.array(bundle.spec.example_rows, dtype=np.float64)
    np.testing.assert_array_equal(rows[: len(stored)], stored)
    assert np.isnan(rows[-1]).all()
    np.testing.assert_array_equal(rows, probe_rows(bundle.spec))


def test_model_that_cannot_answer_gaps_is_refused(bundle):
    ridge = Ridge().fit(np.eye(len(bundle.spec.features)), np.ones(len(bundle.spec.features)))
    with pytest.raises(BadModelError, match="cannot answer a row with gaps: Input X contains NaN"):
        with_compiled_forest(replace(bundle, estimator=ridge, predict=compiled(ridge)))


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_model_that_answers_no_number_is_refused(bundle, value):
    broken = replace(bundle, predict=lambda rows: np.full(len(rows), value))
    with pytest.raises(BadModelError, match="no number"):
        probed(broken)


def test_estimator_that_differs_from_the_compiled_form_is_refused(bundle):
    rows = np.nan_to_num(probe_rows(bundle.spec))
    other = RandomForestRegressor(3, random_state=1).fit(rows, rows[:, 0])
    with pytest.raises(BadModelError, match="compiled forest differs from scikit-learn"):
        with_compiled_forest(replace(bundle, estimator=other))


def test_compiled_bundle_answers_few_and_many_rows_alike(bundle):
    quick = with_compiled_forest(bundle)
    rows = probe_rows(bundle.spec)
    wanted = bundle.predict(rows)
    np.testing.assert_allclose(quick.predict(rows), wanted, atol=1e-12)
    np.testing.assert_allclose(quick.predict(rows[:2]), wanted[:2], atol=1e-12)
