"""A booster's text is read only if LightGBM could walk what it would make of it."""

import re

import lightgbm
import numpy as np
import pytest

from data.errors import BadModelError
from serving.forest.lightgbm_text import check_lightgbm_text

RANDOM = np.random.default_rng(0)
ROWS = RANDOM.normal(size=(200, 3))


def trained(target, **options):
    options = {"verbose": -1, "min_data_in_leaf": 5, "num_leaves": 6, **options}
    return lightgbm.train(options, lightgbm.Dataset(ROWS, target), 3).model_to_string()


@pytest.fixture(scope="module")
def text():
    return trained(ROWS[:, 0] * ROWS[:, 1])


def changed(text, name, change):
    """Return the text with the first such field changed, and sizes that fit again."""
    found = re.search(rf"^{name}=(.*)$", text, re.MULTILINE)
    return resized(text[: found.start(1)] + change(found.group(1)) + text[found.end(1) :])


def resized(text):
    trees = re.split(r"^(?=Tree=)", text.partition("end of trees")[0], flags=re.MULTILINE)[1:]
    sizes = " ".join(str(len(tree)) for tree in trees)
    return re.sub(r"^tree_sizes=.*$", f"tree_sizes={sizes}", text, flags=re.MULTILINE)


def first(value):
    return lambda old: " ".join([value, *old.split(" ")[1:]])


@pytest.mark.parametrize("objective", ["regression", "fair", "quantile", "huber"])
def test_what_is_trained_here_is_read(objective):
    check_lightgbm_text(trained(ROWS[:, 0], objective=objective))


def test_missing_values_and_trees_of_one_leaf_are_read():
    check_lightgbm_text(trained(np.ones(200)))
    check_lightgbm_text(trained(np.where(ROWS[:, 0] > 0, ROWS[:, 1], 0.0), use_missing=True))


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("left_child", first("0")),
        ("left_child", first("99999999")),
        ("right_child", first("-99")),
        ("right_child", first("4")),
        ("split_feature", first("3")),
        ("split_feature", first("-1")),
        ("decision_type", first("1")),
        ("threshold", first("nan")),
        ("leaf_value", first("inf")),
        ("num_leaves", lambda old: "0"),
    ],
)
def test_tree_that_is_none_is_refused(text, name, change):
    with pytest.raises(BadModelError, match="tree 0: found inconsistent nodes"):
        check_lightgbm_text(changed(text, name, change))


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        ("left_child", lambda old: old + " 1", "wanted 5"),
        ("left_child", lambda old: "1e9 " + old, "wanted integers"),
        ("leaf_value", lambda old: "", "wanted 6"),
        ("num_cat", lambda old: "1", "num_cat '1', wanted '0'"),
        ("is_linear", lambda old: "1", "is_linear '1', wanted '0'"),
        ("num_class", lambda old: "1000000", "num_class '1000000', wanted '1'"),
        ("num_tree_per_iteration", lambda old: "0", "wanted '1'"),
        ("objective", lambda old: "multiclass num_class:100000", "wanted one of"),
        ("max_feature_idx", lambda old: "", "found 0 numbers"),
        ("shrinkage", lambda old: "1\nnum_leaves=9", "found 'num_leaves' twice"),
        ("shrinkage", lambda old: "1\0", "wanted plain text"),
        ("shrinkage", lambda old: "1\njunk", "inconsistent nodes"),
    ],
)
def test_text_that_lightgbm_would_believe_is_refused(text, name, change, said):
    with pytest.raises(BadModelError, match=said):
        check_lightgbm_text(changed(text, name, change))


@pytest.mark.parametrize("sizes", ["tree_sizes=99999999 1 1\n", "tree_sizes=-1 -1 -1\n", ""])
def test_sizes_of_other_trees_are_refused(text, sizes):
    with pytest.raises(BadModelError, match="tree_sizes of other trees"):
        check_lightgbm_text(re.sub(r"tree_sizes=.*\n", sizes, text))


def test_tree_that_runs_into_the_next_is_refused(text):
    with pytest.raises(BadModelError, match="tree 0: found inconsistent nodes"):
        check_lightgbm_text(resized(text.replace("\n\n\nTree=1", "\nTree=1")))


@pytest.mark.parametrize("text", ["", "tree", "end of trees", "\n\n", "Tree=0"])
def test_text_that_is_no_model_is_refused(text):
    with pytest.raises(BadModelError, match="found"):
        check_lightgbm_text(text)
