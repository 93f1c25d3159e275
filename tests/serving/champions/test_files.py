import json
import os
from dataclasses import replace

import lightgbm
import numpy as np
import pandas as pd
import pytest
import skops.io
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import Ridge
from sklearn.preprocessing import FunctionTransformer
from sklearn.tree import DecisionTreeRegressor

from data.errors import BadModelError
from serving.champions.files import (
    DIGESTS_FILE,
    SPEC_FILE,
    bundle_digest,
    example_values,
    read_bundle,
    write_facts,
)
from serving.forest.compiled import compiled, tree_spread
from serving.inference.bundle import Bundle, Calibration, ModelSpec

ROWS = np.array([[1.0, 2.0], [3.0, np.nan], [5.0, 6.0], [7.0, 8.0]] * 5)
TARGET = ROWS[:, 0] * 2


def spec(predict):
    rows = tuple((row[0], None if np.isnan(row[1]) else row[1]) for row in ROWS[:4])
    return ModelSpec(
        name="colocast-interference",
        features=("a", "b"),
        scale="identity",
        calibration=Calibration(0.9, (-0.1, 0.2)),
        low={"a": 1.0, "b": 2.0},
        high={"a": 7.0, "b": 8.0},
        floor=0.5,
        example_rows=rows,
        example_values=example_values(predict(ROWS[:4])),
    )


def bundle_of(estimator):
    predict = compiled(estimator)
    profiles = pd.DataFrame({"sm_active_mean": [0.5, np.nan]}, index=["x", "y"])
    return Bundle(spec(predict), "colocast-interference/1", predict, estimator, {"p": profiles})


@pytest.fixture(scope="module")
def forest():
    return RandomForestRegressor(7, random_state=0).fit(ROWS, TARGET)


@pytest.fixture
def written(tmp_path, forest):
    skops.io.dump(forest, tmp_path / "model.skops")
    write_facts(bundle_of(forest), tmp_path)
    return tmp_path


def test_bundle_reads_back_with_spec_tables_and_equal_answers(written, forest):
    bundle = read_bundle(written, "colocast-interference/1")
    assert bundle.spec == spec(bundle.predict)
    assert bundle.version == "colocast-interference/1"
    assert (bundle.predict(ROWS) == forest.predict(ROWS)).all()
    assert bundle.tables["p"]["sm_active_mean"].iloc[0] == 0.5


def test_booster_reads_back_from_native_text(tmp_path):
    options = {"verbose": -1, "min_data_in_leaf": 1}
    booster = lightgbm.train(options, lightgbm.Dataset(ROWS, TARGET), 5)
    booster.save_model(tmp_path / "model.lgb")
    write_facts(bundle_of(booster), tmp_path)
    assert (read_bundle(tmp_path, "v").predict(ROWS) == booster.predict(ROWS)).all()


def test_forest_that_counts_in_its_spread_reads_back_with_it(tmp_path, forest):
    bundle = bundle_of(forest)
    counted = replace(bundle.spec.calibration, least_spread=0.02)
    bundle = replace(bundle, spec=replace(bundle.spec, calibration=counted))
    skops.io.dump(forest, tmp_path / "model.skops")
    write_facts(bundle, tmp_path)
    read = read_bundle(tmp_path, "v")
    assert read.spec.calibration == counted
    told = [tree.predict(ROWS) for tree in forest.estimators_]
    np.testing.assert_allclose(read.spread(ROWS)[:, 0], np.std(told, axis=0), atol=1e-12)


def test_what_is_no_forest_has_no_spread():
    with pytest.raises(BadModelError, match="found a Ridge, wanted a forest"):
        tree_spread(Ridge(), len)


def test_forest_of_several_targets_answers_one_column_each():
    forest = RandomForestRegressor(3, random_state=0).fit(ROWS, np.c_[TARGET, -TARGET])
    answers = compiled(forest)(ROWS)
    assert answers.shape == (20, 2)
    assert (answers == forest.predict(ROWS)).all()


def spoilt(tree, field, value):
    """Return the state of a fitted tree whose root says something else."""
    state = tree.__getstate__()
    state["nodes"][field][0] = value
    return state


@pytest.mark.parametrize(
    ("field", "value"),
    [("left_child", 0), ("left_child", 10**8), ("right_child", -7), ("feature", 10**8)],
)
def test_forest_that_would_be_walked_out_of_its_trees_is_refused_unwalked(tmp_path, field, value):
    forest = RandomForestRegressor(2, random_state=0).fit(ROWS, TARGET)
    bundle, tree = bundle_of(forest), forest.estimators_[1].tree_
    tree.__setstate__(spoilt(tree, field, value))
    skops.io.dump(forest, tmp_path / "model.skops")
    write_facts(bundle, tmp_path)
    with pytest.raises(BadModelError, match="tree 1: found inconsistent nodes"):
        read_bundle(tmp_path, "v")


def test_tree_outside_a_forest_is_not_read(tmp_path):
    tree = DecisionTreeRegressor().fit(ROWS, TARGET)
    skops.io.dump(tree, tmp_path / "model.skops")
    write_facts(bundle_of(tree), tmp_path)
    with pytest.raises(BadModelError, match="wanted a readable estimator"):
        read_bundle(tmp_path, "v")


def test_examples_of_other_features_are_refused_unasked(tmp_path, forest):
    skops.io.dump(forest, tmp_path / "model.skops")
    bundle = bundle_of(forest)
    narrow = replace(bundle.spec, example_rows=((1.0,),) * 4)
    write_facts(replace(bundle, spec=narrow), tmp_path)
    with pytest.raises(BadModelError, match="wanted 2 features"):
        read_bundle(tmp_path, "v")


def test_digest_names_the_content(written, forest):
    before = bundle_digest(written)
    assert before == bundle_digest(written)
    other = replace(bundle_of(forest).spec, floor=0.4)
    assert write_facts(replace(bundle_of(forest), spec=other), written) != before


@pytest.mark.parametrize("name", ["model.skops", SPEC_FILE, "colocast/p.parquet"])
def test_changed_file_is_refused_by_name(written, name):
    with (written / name).open("ab") as file:
        file.write(b" ")
    with pytest.raises(BadModelError, match=f"{name}: found SHA-256"):
        read_bundle(written, "v")


@pytest.mark.parametrize("name", ["model.skops", SPEC_FILE])
def test_missing_file_is_refused_by_name(written, name):
    (written / name).unlink()
    with pytest.raises(BadModelError, match=f"{name}: found no such file"):
        read_bundle(written, "v")


def test_directory_without_digests_is_no_bundle(tmp_path):
    with pytest.raises(BadModelError, match="wanted a list of digests"):
        read_bundle(tmp_path, "v")
    with pytest.raises(BadModelError, match="wanted a bundle"):
        bundle_digest(tmp_path)


def test_digest_list_cannot_point_outside(written):
    (written / DIGESTS_FILE).write_text(json.dumps({"../other": "00"}))
    with pytest.raises(BadModelError, match="wanted a relative path"):
        read_bundle(written, "v")


def test_digest_list_without_spec_is_refused(written):
    (written / DIGESTS_FILE).write_text("{}")
    with pytest.raises(BadModelError, match=r"wanted colocast/spec\.json among them"):
        read_bundle(written, "v")


def test_directory_without_estimator_is_refused(tmp_path, forest):
    write_facts(bundle_of(forest), tmp_path)
    with pytest.raises(BadModelError, match=r"found no model, wanted model\.skops"):
        read_bundle(tmp_path, "v")


def test_untrusted_type_is_refused(tmp_path, forest):
    skops.io.dump(FunctionTransformer(os.getcwd), tmp_path / "model.skops")
    write_facts(bundle_of(forest), tmp_path)
    with pytest.raises(BadModelError, match=r"model\.skops: found .*wanted a readable estimator"):
        read_bundle(tmp_path, "v")


def test_estimator_with_other_feature_count_is_refused(tmp_path, forest):
    wide = RandomForestRegressor(2, random_state=0).fit(np.c_[ROWS, ROWS], TARGET)
    skops.io.dump(wide, tmp_path / "model.skops")
    write_facts(bundle_of(forest), tmp_path)
    with pytest.raises(BadModelError, match="found 4 features, wanted 2"):
        read_bundle(tmp_path, "v")


@pytest.mark.parametrize(
    ("values", "message"),
    [((0.0,) * 4, "for stored example 0"), ((0.0,), "4 answers to 4 examples, wanted 1")],
)
def test_different_answer_to_stored_example_is_refused(tmp_path, forest, values, message):
    skops.io.dump(forest, tmp_path / "model.skops")
    bundle = bundle_of(forest)
    write_facts(replace(bundle, spec=replace(bundle.spec, example_values=values)), tmp_path)
    with pytest.raises(BadModelError, match=message):
        read_bundle(tmp_path, "v")
