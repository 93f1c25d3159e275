"""Evaluation with a few measured pairs, on new GPU models, and the forest's weight."""

import numpy as np
import pandas as pd
import pytest

from data.errors import SettingError
from data.sample_data import sample_runs
from features.profiles import profiles
from pipelines.interference.calibration import calibrated_bundle
from pipelines.interference.evaluate import Plan, evaluate_interference
from pipelines.interference.few_pairs import measured_positions
from pipelines.interference.fit import ForestOptions, InterferenceData, uncalibrated_bundle
from pipelines.interference.gpu_models import gpu_model_rows
from pipelines.interference.share_scores import share_answers
from pipelines.labelling.audit import audited
from pipelines.labelling.audit_rules import ALL_ROWS
from pipelines.splits import family_folds
from serving.inference.interference import slowdown_estimates
from serving.inference.interference_rows import WEIGHT_TABLE

QUICK = ForestOptions(trees=10, folds=2)


@pytest.fixture(scope="module")
def runs():
    """Return the sample's runs of seven families, so that evaluating them is quick."""
    every = sample_runs()
    kept = every[every["family"].isin(sorted(every["family"].unique())[:7])]
    beside = kept["neighbour_key"]
    return kept[beside.isna() | beside.isin(kept["job_key"])].reset_index(drop=True)


@pytest.fixture(scope="module")
def labels(runs):
    return audited(runs).labels


def test_each_new_job_is_measured_beside_so_many_others(labels):
    fold = family_folds(labels, 4, 0)[0]
    shown = labels.iloc[measured_positions(labels, fold, 2, np.random.default_rng(0))]
    for key in labels.iloc[fold.test]["job_key"].unique():
        sides = shown[["job_key", "neighbour_key"]]
        own = sides[(sides == key).any(axis=1)]
        assert len({frozenset(pair) for pair in own.itertuples(index=False)}) >= 2
    assert not set(shown.index) & set(fold.train)


def test_measured_pairs_of_new_jobs_raise_r2(runs):
    rows = evaluate_interference(runs, ("family",), 0, QUICK, Plan((0, 3)))
    assert [row["split"] for row in rows] == ["family", "family_k3"]
    assert [row["k"] for row in rows] == [0, 3]
    assert rows[1]["r2"] > rows[0]["r2"] + 0.05
    assert rows[1]["draws"] == 5
    assert rows[1]["n"] < rows[0]["n"]


def test_all_rows_are_asked_where_the_rules_say_so(runs, labels):
    strange = runs.copy()
    strange.loc[strange["run_id"] == labels["run_id"].iloc[0], "jct_s"] *= 50
    found = [
        evaluate_interference(strange, ("pair",), 0, QUICK, plan)[0]["n"]
        for plan in (Plan(), Plan(rules=ALL_ROWS))
    ]
    assert found[0] < found[1]


def test_a_gpu_model_is_told_from_another_by_a_few_pairs(runs):
    other = runs.assign(run_id="x" + runs["run_id"], gpu_model="gpu")
    rows = gpu_model_rows(pd.concat([runs, other], ignore_index=True), (0, 1), 0, QUICK)
    assert [row["split"] for row in rows] == [
        "gpu_model/cpu", "gpu_model/cpu_k1", "gpu_model/gpu", "gpu_model/gpu_k1",
    ]  # fmt: skip
    assert rows[1]["r2"] > rows[1]["baseline_r2"]


def test_bounds_on_a_gpu_model_that_is_new_are_calibrated_on_others_or_the_widest(labels, runs):
    table, asked = profiles(runs), labels.head(20).assign(gpu_model="gpu")
    both = pd.concat([table, table.assign(gpu_model="gpu")], ignore_index=True)
    bundle, _ = calibrated_bundle(InterferenceData(labels, both, 0.9), QUICK, 0, ("pair",))
    widest = bundle.spec.calibration
    assert widest.groups["gpu_model"][1] == pytest.approx(4 * widest.default[1])
    found = slowdown_estimates(bundle, asked)
    assert not found["in_domain"].any()
    # Seen on two GPU models, between which slowdowns differ by a tenth, a third is told by that.
    other = labels.assign(run_id="x" + labels["run_id"], gpu_model="gpu")
    twice = pd.concat([labels, other.assign(slowdown=other["slowdown"] * 1.1)], ignore_index=True)
    told, _ = calibrated_bundle(InterferenceData(twice, both, 0.9), QUICK, 0, ("pair",))
    low, high = told.spec.calibration.groups["gpu_model"]
    assert low < -0.05
    assert 0.05 < high < widest.groups["gpu_model"][1]


def test_one_gpu_model_cannot_be_held_out(runs):
    with pytest.raises(SettingError, match="found labels of 1 GPU model"):
        gpu_model_rows(runs, (0,), 0)


def test_corrections_of_what_is_only_noise_count_for_nothing(labels, runs):
    noise = np.random.default_rng(0).normal(0, 0.3, len(labels))
    random = InterferenceData(labels.assign(slowdown=np.exp(noise)), profiles(runs), 0.1)
    found = uncalibrated_bundle(random, ForestOptions(trees=40), 0)
    assert found.tables[WEIGHT_TABLE]["weight"].iloc[0] < 0.3


@pytest.mark.parametrize("with_pairs", [False, True])
def test_sharing_classes_that_follow_the_profile_are_told_for_new_families(
    labels, runs, with_pairs
):
    table = profiles(runs)
    shares = table[["job_key", "gpu_model"]].assign(
        share_label=pd.qcut(table["sm_active_mean"], 2, labels=False).astype("float64")
    )
    answers = share_answers(shares, table, labels if with_pairs else None, 0)
    assert (answers == shares["share_label"]).mean() > 0.7
