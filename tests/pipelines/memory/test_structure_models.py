"""Training and evaluation of the models that know a job's structure only."""

import json

import numpy as np
import pandas as pd
import pytest

from data.errors import SettingError
from data.sample_data import sample_runs
from features.structure import STRUCTURE_COLUMNS, structure_features
from pipelines.demand.calibration import (
    REACHES,
    Reach,
    calibrated_demand_bundle,
    stranger_reach,
    thirds_apart,
)
from pipelines.demand.evaluate import evaluate_demand, evaluate_given_demand
from pipelines.demand.fit import (
    LEAST_SPREAD,
    DemandOptions,
    measured_signals,
)
from pipelines.demand.training import train_demand
from pipelines.initial_tables import sample_structures
from pipelines.labelling.from_runs import memory_runs_from_runs
from pipelines.memory.evaluate import evaluate_given_memory, evaluate_memory
from pipelines.memory.fit import QuadraticOptions
from pipelines.memory.training import train_memory
from serving.inference.demand import (
    demand_estimates_of_rows,
    demand_features,
    demand_spreads,
    signals_of,
)
from serving.inference.memory import memory_estimates_of_rows

QUICK = DemandOptions(trees=10, folds=3)
KEYS = (
    *("split", "n", "r2", "r2_log", "mae", "within_2x", "under_rate"),
    *("coverage_90", "width_90_median", "baseline_r2", "ceiling_r2"),
)


@pytest.fixture(scope="module")
def runs():
    """Really measured peaks and signals of 34 programs, five runs each."""
    return memory_runs_from_runs(sample_runs(), sample_structures())


@pytest.fixture(scope="module")
def memory(runs):
    return train_memory(runs, 0)


@pytest.fixture(scope="module")
def demand(runs):
    return train_demand(runs, 0, QUICK)


def test_memory_of_what_was_learnt_is_close(memory, runs):
    bundle, _ = memory
    found = memory_estimates_of_rows(bundle, runs)
    peak = runs["gpu_mem_peak_mib"]
    assert (np.log(found["value"] / peak).abs()).median() < 0.1
    assert (peak <= found["upper"] * 1.05).mean() > 0.9


def test_memory_report_holds_both_splits(memory, runs):
    _, report = memory
    splits = {row["split"]: row for row in json.loads(report.documents["splits.json"])}
    assert set(splits) == {"configuration", "extrapolation"}
    assert splits["configuration"]["r2"] > max(0.5, splits["configuration"]["baseline_r2"])
    assert {"predicted_configuration.png", "importance.png"} <= set(report.figures)
    assert "| extrapolation |" in report.card


def test_runs_out_of_memory_teach_nothing(runs, memory):
    crashed = runs.head(20).assign(outcome="oom", gpu_mem_peak_mib=1.0)
    both = pd.concat([runs, crashed.assign(run_id=crashed["run_id"] + "x")], ignore_index=True)
    bundle, _ = train_memory(both, 0)
    assert bundle.spec.facts["rows"] == memory[0].spec.facts["rows"] == str(len(runs))
    assert bundle.spec.example_values == pytest.approx(memory[0].spec.example_values)


def test_too_few_runs_teach_no_memory(runs):
    with pytest.raises(SettingError, match="found 4 runs of known memory, wanted 5 or more"):
        train_memory(runs.head(4), 0)


def test_memory_of_models_of_one_size_is_learnt_without_extrapolation(runs):
    same = runs[runs["family"] == "mlp"].assign(dense_parameters=1e6, batch_size=8.0)
    bundle, report = train_memory(same, 0)
    assert "extrapolation_r2" not in report.metrics
    assert bundle.spec.calibration.outside == 1.5


def test_memory_evaluation_is_flat_and_holds_each_large_data_set(runs):
    runs = runs[runs["run_id"].str.endswith(("#0", "#1"))]
    rows = evaluate_memory(runs, ["configuration", "extrapolation"], 0, QuadraticOptions(folds=2))
    names = [row["split"] for row in rows]
    assert names[0] == "configuration"
    assert {"configuration:profiler/numpy", "extrapolation:largest"} <= set(names)
    assert all(set(KEYS) <= set(row) for row in rows)
    assert rows[0]["n"] == len(runs)
    assert rows[0]["ceiling_r2"] > 0.99  # repeats differ by a page or two


def test_memory_of_a_given_test_set(runs):
    large = runs["batch_size"] > 256
    row = evaluate_given_memory(runs[~large], runs[large], 0)
    assert (row["split"], row["n"]) == ("given", int(large.sum()))
    with pytest.raises(SettingError, match="found no run of known memory in the test set"):
        evaluate_given_memory(runs, runs.assign(gpu_mem_peak_mib=np.nan), 0)


def test_unknown_splits_are_named(runs):
    with pytest.raises(SettingError, match="found the split 'random', wanted some of config"):
        evaluate_memory(runs, ["random"], 0)
    with pytest.raises(SettingError, match="found the split 'random', wanted some of config"):
        evaluate_demand(runs, ["random"], 0)


def test_demand_learns_the_signals_that_were_measured(demand, runs):
    bundle, report = demand
    found = demand_estimates_of_rows(bundle, runs)
    assert "gpu_util_mean" in found
    assert "sm_occupancy_mean" not in found  # a CPU slot has none
    error = (found["gpu_util_mean"]["value"] - runs["gpu_util_mean"]).abs().mean()
    assert error < 0.5 * (runs["gpu_util_mean"] - runs["gpu_util_mean"].mean()).abs().mean()
    assert report.metrics["configuration/gpu_util_mean_r2"] < 1
    assert {"predicted_gpu_util_mean.png", "coverage.png"} <= set(report.figures)


def test_signal_of_few_runs_is_left_out_and_its_rows_stay(runs):
    rare = runs.assign(fp32_active_mean=runs["gpu_util_mean"].where(runs.index < 10))
    kept, signals = measured_signals(rare)
    assert len(kept) == len(runs)
    assert "fp32_active_mean" not in {signal.name for signal in signals}


def test_rows_that_lack_a_learnt_signal_are_left_out(runs):
    patchy = runs.assign(gpu_util_mean=runs["gpu_util_mean"].where(runs.index >= 10))
    kept, signals = measured_signals(patchy)
    assert len(kept) == len(runs) - 10
    assert "gpu_util_mean" in {signal.name for signal in signals}


def test_runs_without_signals_teach_no_demand(runs):
    bare = runs.drop(columns=[name for name in runs if name.endswith(("_mean", "_std", "_mib"))])
    with pytest.raises(SettingError, match="found 0 runs with signals, wanted 5 or more"):
        train_demand(bare, 0, QUICK)


def test_demand_evaluation_starts_with_the_mean_over_signals(runs):
    first, *others = evaluate_demand(runs, ["configuration"], 0, QUICK)
    assert first["split"] == "configuration"
    assert first["mae"] is None  # of different units
    assert first["r2"] == pytest.approx(np.mean([row["r2"] for row in others]))
    assert all(set(KEYS) <= set(row) for row in (first, *others))


def test_demand_of_a_given_test_set(runs):
    mlp = runs["family"] == "mlp"
    row = evaluate_given_demand(runs[~mlp], runs[mlp], 0, QUICK)
    assert (row["split"], row["n"]) == ("given", int(mlp.sum()))
    assert row["signals"] > 5


def test_family_that_was_not_learnt_is_told_by_its_computation_alone(runs):
    known = runs[runs["family"] != "mlp"]
    bundle, _ = train_demand(known, 0, QUICK)
    odd = runs[runs["family"] == "mlp"].assign(dense_parameters=1e15, embedding_rows=1e15)
    plain = odd.assign(dense_parameters=1.0, embedding_rows=np.nan)
    found, other = (demand_estimates_of_rows(bundle, rows) for rows in (odd, plain))
    assert not found["gpu_util_mean"]["in_domain"].any()
    pd.testing.assert_frame_equal(found["gpu_util_mean"], other["gpu_util_mean"])


def test_intervals_of_demand_count_in_the_spread_of_the_trees(demand, runs):
    bundle, report = demand
    assert bundle.spec.calibration.least_spread == LEAST_SPREAD
    spreads = demand_spreads(bundle, runs)
    assert spreads.shape == (len(runs), len(signals_of(bundle)))
    assert spreads.min() >= LEAST_SPREAD
    assert np.ptp(spreads) > 0
    assert 0.8 < report.metrics["configuration/gpu_util_mean_coverage_90"] <= 1


@pytest.fixture(scope="module")
def only(runs):
    """One family, each configuration of another amount of computation."""
    known = runs[runs["family"] == runs["family"].mode()[0]].reset_index(drop=True)
    work = 1e6 * (1 + known["configuration"].factorize()[0].astype(np.float64))
    return known.assign(multiply_adds=work, activations=work, depth=8.0)


def test_single_family_chooses_how_far_another_may_be_off(only):
    known, signals = measured_signals(only)
    few, options = signals[:2], DemandOptions(trees=2, folds=2)
    reach = stranger_reach(known, few, options, 0)
    bundle, _ = calibrated_demand_bundle(known, few, options, 0)
    assert reach in REACHES
    assert {signal.by_trees for signal in signals_of(bundle)} == {reach.by_trees}


def test_family_whose_computation_nobody_knows_reaches_eight_times_its_errors(only):
    known, signals = measured_signals(
        only.assign(multiply_adds=np.nan, activations=np.nan, depth=np.nan)
    )
    assert not thirds_apart(known)
    assert stranger_reach(known, signals, QUICK, 0) == Reach(8.0, by_trees=False)


def test_thirds_apart_have_a_third_between_them(only):
    folds = {fold.name: fold for fold in thirds_apart(only)}
    up, down = (folds[f"batch_multiply_adds_log, {way}"] for way in ("up", "down"))
    work = structure_features(only)["batch_multiply_adds_log"].to_numpy()
    assert work[up.train].max() < work[up.test].min()
    assert (up.train.tolist(), up.test.tolist()) == (down.test.tolist(), down.train.tolist())
    assert len(up.train) + len(up.test) < 0.75 * len(only)


def test_thirds_apart_are_by_the_amounts_that_are_asked_for(only):
    names = {fold.name for fold in thirds_apart(only, ("batch_flops_log", "activations_log"))}
    assert {"activations_log, up", "activations_log, down"} <= names
    assert not any("multiply_adds" in name for name in names)


def test_strange_family_is_told_by_the_amounts_that_are_asked_for(only):
    strange = pd.Series(data=True, index=only.index)
    shown = demand_features(only, STRUCTURE_COLUMNS, strange, ("depth_log",)).dropna(axis="columns")
    assert shown.columns.tolist() == ["depth_log"]


def test_interval_of_an_unknown_family_is_wider(demand, runs):
    bundle, _ = demand
    same, other = (
        demand_estimates_of_rows(bundle, runs.assign(family=name))["gpu_util_mean"]
        for name in (runs["family"], "something new")
    )
    width = [(one["upper"] - one["lower"]).median() for one in (same, other)]
    assert width[1] > width[0]
