import json
from dataclasses import replace

import numpy as np
import pytest

from data.errors import SettingError, UnknownProfileError
from features.profiles import profiles
from pipelines.interference.fit import ForestOptions, InterferenceData, uncalibrated_bundle
from pipelines.interference.training import train_interference
from pipelines.labelling.audit import audited
from pipelines.labelling.label_effects import PAIR
from serving.inference.interference import slowdown_estimates
from serving.inference.known_jobs import KnownJobs
from tests.pipelines.interference.programs import runs_of_five

QUICK = ForestOptions(trees=10, folds=3)


@pytest.fixture(scope="module")
def runs():
    """Really measured runs of five programs, alone and together."""
    return runs_of_five()


@pytest.fixture(scope="module")
def audit(runs):
    return audited(runs)


@pytest.fixture(scope="module")
def trained(runs, audit):
    return train_interference(audit.labels, profiles(runs), 0, audit, QUICK)


def test_model_beats_its_baselines_on_pairs_it_learnt_from(trained, audit):
    bundle, _ = trained
    found = slowdown_estimates(bundle, audit.labels)
    slowdown = audit.labels["slowdown"]
    assert (found["value"] - slowdown).abs().mean() < 0.5 * (
        slowdown - slowdown.mean()
    ).abs().mean()
    assert (found["source"] == "model").all()
    assert found["lower"].between(audit.noise.floor, found["value"]).all()


def test_signals_that_no_cpu_slot_has_break_nothing(trained):
    bundle, _ = trained
    missing = [name for name in bundle.spec.features if name not in bundle.spec.high]
    assert "sm_occupancy_mean_job" in missing
    assert np.isfinite(bundle.spec.example_values).all()


def test_spec_tells_where_the_model_comes_from(trained, audit):
    bundle, _ = trained
    assert bundle.spec.facts["rows"] == str(len(audit.labels))
    assert bundle.spec.facts["job_keys"] == "5"
    assert len(bundle.spec.facts["data_digest"]) == 64
    assert bundle.spec.floor == pytest.approx(audit.noise.floor)


def test_report_holds_every_split_beside_its_baselines(trained):
    _, report = trained
    splits = {row["split"]: row for row in json.loads(report.documents["splits.json"])}
    assert set(splits) == {"pair", "family_pair", "configuration", "family"}
    assert {"r2", "mae", "coverage_90", "under_rate", "baseline_r2", "ceiling_r2"} <= set(
        splits["family"]
    )
    assert report.metrics["pair_r2"] == splits["pair"]["r2"]
    assert all(np.isfinite(value) for value in report.metrics.values())


def test_report_is_made_to_be_looked_at(trained):
    _, report = trained
    assert {"predicted_pair.png", "coverage_family.png", "importance.png"} <= set(report.figures)
    assert {"slowdown_heat_map.png", "learning_curve.png"} <= set(report.figures)
    assert "| pair |" in report.card
    assert "labels kept" in report.documents["audit.md"]


def test_same_labels_and_seed_give_the_same_model_with_or_without_their_audit(trained, runs, audit):
    bundle, _ = trained
    again, report = train_interference(audit.labels, profiles(runs), 0, options=QUICK)
    assert again.spec.example_values == bundle.spec.example_values
    assert again.spec.floor == min(1.0, audit.labels["slowdown"].min())
    assert "audit.md" not in report.documents


def test_too_few_labels_are_refused(runs, audit):
    with pytest.raises(SettingError, match="found 9 slowdown labels, wanted 10 or more"):
        train_interference(audit.labels.head(9), profiles(runs), 0, options=QUICK)


def test_labels_of_one_pair_are_refused(runs, audit):
    first = audit.labels.head(1)
    one = first.loc[[0] * 12].assign(neighbour_key=first["job_key"], neighbour_family="f")
    one = one.assign(family="f", run_id=[f"run {at}" for at in range(12)])
    with pytest.raises(SettingError, match="found no pairs to hold out"):
        train_interference(one, profiles(runs), 0, options=QUICK)


def test_labelled_job_without_profile_is_refused(runs, audit):
    some = profiles(runs).iloc[1:]
    with pytest.raises(UnknownProfileError, match="no exclusive profile of 'json-stream'"):
        train_interference(audit.labels, some, 0, options=QUICK)


def test_the_forest_sees_memory_where_it_is_to(runs, audit):
    data = InterferenceData(audit.labels, profiles(runs), audit.noise.floor)
    bundle = uncalibrated_bundle(data, replace(QUICK, unseen=None), 0)
    assert "gpu_mem_peak_mib_job" in bundle.spec.features
    pairs = [tuple(row) for row in audit.labels[PAIR].to_numpy()]
    told = slowdown_estimates(bundle, audit.labels)["value"]
    assert [one.value for one in KnownJobs(bundle).estimates(pairs)] == pytest.approx(list(told))
