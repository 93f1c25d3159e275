import numpy as np
import pytest

from data.errors import SettingError
from data.sample_data import sample_runs
from features.profiles import profiles
from pipelines.interference.evaluate import evaluate_given_interference, evaluate_interference
from pipelines.interference.fit import ForestOptions, InterferenceData, uncalibrated_bundle
from pipelines.interference.training_rows import known_runs, training_data
from pipelines.labelling.audit import audited
from pipelines.labelling.audit_rules import ALL_ROWS, AuditRules
from pipelines.splits import pair_folds

QUICK = ForestOptions(trees=10, folds=2)
PROGRAMS = ["sort-1m", "json-stream", "matmul-384", "mlp-256-input-slow", "sqlite-90k"]
KEYS = (
    *("split", "n", "r2", "r2_log", "mae", "within_2x", "under_rate"),
    *("coverage_90", "width_90_median", "baseline_r2", "ceiling_r2"),
)


def beside(runs, keys):
    neighbour = runs["neighbour_key"]
    chosen = runs["job_key"].isin(keys) & (neighbour.isna() | neighbour.isin(keys))
    return runs[chosen].reset_index(drop=True)


@pytest.fixture(scope="module")
def runs():
    """Really measured runs of five programs, alone and together."""
    return beside(sample_runs(), PROGRAMS)


@pytest.fixture(scope="module")
def rows(runs):
    return evaluate_interference(runs, ["pair", "configuration"], 0, QUICK)


def test_each_split_is_one_flat_row(rows, runs):
    assert [row["split"] for row in rows] == ["pair", "configuration"]
    for row in rows:
        assert set(KEYS) <= set(row)
        assert row["n"] == int(runs["neighbour_key"].notna().sum())
        assert all(np.isscalar(value) or value is None for value in row.values())


def test_shares_are_shares_and_intervals_cover(rows):
    for row in rows:
        assert 0 <= row["under_rate"] <= 1
        assert row["coverage_90"] > 0.6  # 60 rows only
        assert row["width_90_median"] > 0
        assert 0.5 < row["ceiling_r2"] < 1


def test_new_pairs_are_easier_than_new_jobs(rows):
    pair, configuration = rows
    assert pair["r2"] > max(0.5, configuration["r2"])
    assert pair["in_domain_share"] > configuration["in_domain_share"]


def test_answers_are_kept_with_the_noise_that_was_measured(runs):
    kept = []
    evaluate_interference(runs, ["pair"], 0, QUICK, keep=kept.append)
    assert set(kept[0].rows["noise_sd"]) == {audited(runs).noise.label_sd}


def test_unknown_split_is_named(runs):
    with pytest.raises(SettingError, match="found the split 'random', wanted some of pair"):
        evaluate_interference(runs, ["random"], 0, QUICK)


def test_single_family_cannot_be_held_out(runs):
    with pytest.raises(SettingError, match="found no way to hold out by family"):
        evaluate_interference(runs.assign(family="one"), ["family"], 0, QUICK)


def test_given_test_set_may_hold_unknown_jobs(runs):
    known = beside(runs, PROGRAMS[:4])
    asked = runs[~runs["run_id"].isin(known["run_id"])]
    row = evaluate_given_interference(known, asked, 0, QUICK)
    assert row["split"] == "given"
    assert set(KEYS) <= set(row)
    assert row["n"] == int(asked["neighbour_key"].notna().sum())
    assert row["model_share"] == 1.0  # each job ran alone, here or there
    assert row["unlabelled"] == 0


def test_test_set_without_baselines_is_refused(runs):
    known = beside(runs, PROGRAMS[:4])
    strange = runs[runs["neighbour_key"].notna()].assign(job_key="never-alone")
    with pytest.raises(SettingError, match="found no colocated run with a baseline"):
        evaluate_given_interference(known, strange, 0, QUICK)


def test_only_a_lower_slowdown_that_is_learnt_from_lowers_the_floor(runs):
    labels = audited(runs, ALL_ROWS).labels.reset_index(drop=True)
    labels.loc[0, "slowdown"] = 0.5
    data = InterferenceData(labels, profiles(runs), 0.9)
    rows = np.arange(len(labels))
    assert uncalibrated_bundle(data, QUICK, 0).spec.floor == 0.5
    assert uncalibrated_bundle(data.of_rows(rows[1:]), QUICK, 0).spec.floor > 0.5


@pytest.mark.parametrize("rules", [AuditRules(), ALL_ROWS])
def test_floor_of_a_fold_knows_nothing_of_the_rows_it_holds_out(runs, rules):
    labels, table = audited(runs, rules).labels.reset_index(drop=True), profiles(runs)
    fold = pair_folds(labels, 5, 0)[0]
    asked = runs["run_id"].isin(labels["run_id"].iloc[fold.test])
    strange = runs.assign(jct_s=runs["jct_s"].where(~asked, np.linspace(1, 3, len(runs))))
    assert audited(strange, rules).noise.floor != audited(runs, rules).noise.floor
    floors = [
        training_data(known_runs(each, labels, "pair", fold), table, rules, 0).floor
        for each in (runs, strange)
    ]
    assert floors[0] == floors[1]
