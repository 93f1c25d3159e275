"""By what amounts of computation a strange family is told, and that the choice is a fold's own."""

import numpy as np
import pandas as pd
import pytest

from benchmarks import quality_amounts
from benchmarks.nested import CHOSEN
from benchmarks.quality_amounts import (
    CANDIDATES,
    SPLITS,
    TEN,
    TWO,
    answers,
    chosen,
    trials_of_a_family,
)
from data.sample_data import sample_runs
from features.structure import COMPUTE_COLUMNS, STRUCTURE_COLUMNS
from pipelines.demand.fit import (
    DemandOptions,
    learnt_signals,
    measured_signals,
    uncalibrated_demand_bundle,
)
from pipelines.initial_tables import sample_structures
from pipelines.labelling.from_runs import memory_runs_from_runs
from serving.inference.demand import demand_estimates_of_rows

QUICK = DemandOptions(trees=2, folds=2)
TWO_SIGNALS = slice(0, 2)


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(quality_amounts, "OPTIONS", QUICK)


@pytest.fixture(scope="module")
def measured():
    """Two families whose configurations differ by how deep they are and what they multiply."""
    runs, signals = measured_signals(memory_runs_from_runs(sample_runs(), sample_structures()))
    runs = runs[runs["family"].isin(["convolution", "mlp"])].reset_index(drop=True)
    work = 1.0 + runs["configuration"].factorize()[0]
    known = {"depth": work, "activations": 8.0, "multiply_adds": 1e6 / work, "batch_size": 8}
    return runs.assign(**known), signals[TWO_SIGNALS]


def test_amounts_hold_each_other():
    assert set(TWO) < set(COMPUTE_COLUMNS) < set(TEN) < set(STRUCTURE_COLUMNS)
    assert len(TEN) == 10


def test_five_amounts_answer_as_the_service_does(measured):
    runs, signals = measured
    learnt, asked = (runs[runs["family"] == name] for name in ("convolution", "mlp"))
    own = learnt_signals(signals, learnt)
    bundle = uncalibrated_demand_bundle(learnt, own, QUICK, quality_amounts.SEED)
    served = demand_estimates_of_rows(bundle, asked)
    found = answers(learnt, asked, signals, COMPUTE_COLUMNS, is_strange=True)
    for name in found:
        assert found[name].to_numpy() == pytest.approx(served[name]["value"].to_numpy())


def test_ends_of_a_family_are_told_apart_once_by_whatever_a_candidate_sees(measured):
    runs, _ = measured
    names = [fold.name.split(",")[0] for fold in trials_of_a_family(runs)]
    parts = {(fold.train.tobytes(), fold.test.tobytes()) for fold in trials_of_a_family(runs)}
    assert len(parts) == len(names) > 2
    assert "batch_multiply_adds_log" in names or "depth" in names
    assert not {"batch_size", "gpus"} & set(names)  # the same for all


@pytest.mark.parametrize("split", SPLITS)
def test_amounts_are_chosen_without_what_is_held_out(split, measured, monkeypatch):
    few = {name: CANDIDATES[name] for name in list(CANDIDATES)[:2]}
    monkeypatch.setattr(quality_amounts, "CANDIDATES", few)
    runs, signals = measured
    fold = SPLITS[split].folds(runs)[0]
    otherwise = runs.copy()
    for signal in signals:
        otherwise.loc[fold.test, signal.name] = np.linspace(0.1, 0.9, len(fold.test))
    found = [chosen(each, signals, fold, SPLITS[split])[CHOSEN] for each in (runs, otherwise)]
    pd.testing.assert_frame_equal(*found, check_exact=True)
