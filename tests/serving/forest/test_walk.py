import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.ensemble import RandomForestRegressor

from data.errors import BadModelError
from serving.forest.compiled import compiled, tree_spread
from serving.forest.few import FewRows
from serving.forest.layout import compiled_forest
from serving.forest.walk import column_codes, ordered


def trees_of(forest):
    return [estimator.tree_ for estimator in forest.estimators_]


def training_rows(n=300, features=5, missing=0.1, seed=0):
    random = np.random.default_rng(seed)
    rows = random.normal(size=(n, features))
    target = rows[:, 0] * rows[:, 1] + np.abs(rows[:, 2])
    rows[random.random(rows.shape) < missing] = np.nan
    return rows, target


@pytest.fixture(scope="module")
def forest():
    rows, target = training_rows()
    return RandomForestRegressor(30, random_state=0, min_samples_leaf=2).fit(rows, target)


@pytest.mark.parametrize("n", [1, 2, 7, 33, 1025, 2500])
def test_compiled_forest_equals_scikit_learn(forest, n):
    rows = training_rows(n, seed=1)[0]
    compiled = compiled_forest(trees_of(forest), 5)
    np.testing.assert_allclose(compiled.predict(rows), forest.predict(rows), rtol=0, atol=1e-12)


@pytest.mark.parametrize("n", [1, 9, 100])
def test_few_rows_equal_scikit_learn(forest, n):
    rows = training_rows(n, seed=2)[0]
    few = FewRows(trees_of(forest), 5)
    np.testing.assert_allclose(few.predict(rows), forest.predict(rows), rtol=0, atol=1e-12)


@pytest.mark.parametrize("n", [0, 1, 2500])
def test_spread_is_the_deviation_of_the_trees(forest, n):
    rows = training_rows(n, seed=3)[0]
    told = np.array([tree.predict(rows) for tree in forest.estimators_]).std(axis=0) if n else []
    answers = compiled_forest(trees_of(forest), 5)
    np.testing.assert_allclose(answers.spread(rows)[:, 0], told, rtol=0, atol=1e-12)
    native = tree_spread(forest, compiled(forest))(rows) if n else np.empty((0, 1))
    np.testing.assert_allclose(native[:, 0], told, rtol=0, atol=1e-12)
    assert tree_spread(forest, answers.predict) == answers.spread  # it is not walked twice


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(width=32, allow_infinity=False), min_size=5, max_size=5))
def test_any_row_goes_where_scikit_learn_sends_it(forest, row):
    rows = np.array([row])
    wanted = forest.predict(rows)
    assert compiled_forest(trees_of(forest), 5).predict(rows) == pytest.approx(wanted, abs=1e-12)
    assert FewRows(trees_of(forest), 5).predict(rows) == pytest.approx(wanted, abs=1e-12)


def test_rows_on_a_threshold_go_left(forest):
    tree = forest.estimators_[0].tree_
    inner = np.flatnonzero((tree.children_left >= 0) & np.isfinite(tree.threshold))
    rows = np.zeros((len(inner), 5))
    rows[np.arange(len(inner)), tree.feature[inner]] = tree.threshold[inner]
    compiled = compiled_forest(trees_of(forest), 5)
    np.testing.assert_allclose(compiled.predict(rows), forest.predict(rows), rtol=0, atol=1e-12)


def test_missing_values_unseen_in_training_go_where_scikit_learn_sends_them():
    rows, target = training_rows(missing=0.0)
    forest = RandomForestRegressor(10, random_state=0).fit(rows, target)
    rows[::2, 1] = np.nan
    compiled = compiled_forest(trees_of(forest), 5)
    np.testing.assert_allclose(compiled.predict(rows), forest.predict(rows), atol=1e-12)


def test_split_on_missingness_alone_is_followed():
    rows = np.array([[1.0], [1.0], [np.nan], [np.nan]])
    forest = RandomForestRegressor(3, bootstrap=False).fit(rows, [1.0, 1.0, 5.0, 5.0])
    assert np.isinf(forest.estimators_[0].tree_.threshold[0])
    compiled = compiled_forest(trees_of(forest), 1)
    assert compiled.predict(rows).tolist() == [1.0, 1.0, 5.0, 5.0]
    assert FewRows(trees_of(forest), 1).predict(rows).tolist() == [1.0, 1.0, 5.0, 5.0]


def test_several_targets_are_answered_together():
    rows, target = training_rows()
    forest = RandomForestRegressor(10, random_state=0).fit(rows, np.stack([target, -target], 1))
    compiled = compiled_forest(trees_of(forest), 5)
    assert compiled.predict(rows).shape == (300, 2)
    np.testing.assert_allclose(compiled.predict(rows), forest.predict(rows), atol=1e-12)


def test_forest_of_bare_leaves_answers_the_mean():
    rows, target = training_rows()
    forest = RandomForestRegressor(4, max_depth=1, min_samples_leaf=300, bootstrap=False)
    forest.fit(rows, target)
    wanted = pytest.approx(np.full(2, target.mean()))
    assert compiled_forest(trees_of(forest), 5).predict(rows[:2]) == wanted
    assert FewRows(trees_of(forest), 5).predict(rows[:2]) == wanted


def test_no_rows_give_no_answers(forest):
    assert compiled_forest(trees_of(forest), 5).predict(np.empty((0, 5))).shape == (0,)


def test_prediction_leaves_its_input_alone(forest):
    rows = training_rows(20)[0]
    before = rows.copy()
    compiled_forest(trees_of(forest), 5).predict(rows)
    np.testing.assert_array_equal(rows, before)


@given(st.lists(st.floats(width=32, allow_nan=False), min_size=2, max_size=20))
def test_codes_are_ordered_as_the_numbers(values):
    numbers = np.array(values, dtype=np.float32)
    codes = ordered(numbers)
    np.testing.assert_array_equal(
        codes[:, None] < codes[None, :], numbers[:, None] < numbers[None, :]
    )


def test_missing_is_above_and_below_everything():
    codes = column_codes(np.array([[np.nan], [1e300], [-1e300]]))
    assert codes[0, 0] > codes[1, 0]
    assert codes[0, 1] < codes[2, 1]


class Tampered:
    """A tree whose arrays a file made up."""

    def __init__(self, tree, **changes):
        for name in (
            "children_left",
            "children_right",
            "feature",
            "threshold",
            "missing_go_to_left",
            "value",
        ):
            setattr(self, name, np.array(changes.get(name, getattr(tree, name))))


def changed(tree, name, at, value):
    array = np.array(getattr(tree, name))
    array[at] = value
    return Tampered(tree, **{name: array})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("children_left", 10_000),
        ("children_left", 0),
        ("children_left", -7),
        ("children_right", 1),
        ("children_right", -1),
        ("feature", 5),
        ("feature", -3),
        ("threshold", np.nan),
        ("value", np.inf),
    ],
)
def test_unsound_tree_is_refused(forest, name, value):
    tree = changed(forest.estimators_[0].tree_, name, 0, value)
    with pytest.raises(BadModelError, match="tree 0: found inconsistent nodes"):
        compiled_forest([tree], 5)


def test_forest_too_large_for_its_layout_is_refused(forest):
    with pytest.raises(BadModelError, match="wanted at most"):
        compiled_forest(trees_of(forest), 2**27)
