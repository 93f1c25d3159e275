"""What is held out is told by the other runs alone, memory and demand."""

import numpy as np
import pandas as pd
import pytest

from data.domain import PROFILE_COLUMNS
from data.sample_data import sample_runs
from pipelines.demand.evaluate import evaluate_demand, evaluate_given_demand
from pipelines.demand.fit import DemandOptions, held_out_demand, measured_signals
from pipelines.initial_tables import sample_structures
from pipelines.labelling.from_runs import memory_runs_from_runs, usable
from pipelines.memory.evaluate import FOLDS, evaluate_given_memory, evaluate_memory
from pipelines.memory.fit import QuadraticOptions
from pipelines.splits import extrapolation_folds, memory_configuration_folds, memory_family_folds

QUICK = DemandOptions(trees=2, folds=2)


@pytest.fixture(scope="module")
def runs():
    """Really measured peaks and signals of two families, five programs each, three runs each.

    Depth is made up, and the only amount of computation that is known: one is enough for ends.
    """
    runs = memory_runs_from_runs(sample_runs(), sample_structures())
    runs = runs[runs["family"].isin(["convolution", "mlp"])].sort_values("run_id")
    depth = runs.groupby("family")["configuration"].transform(lambda each: each.factorize()[0]) + 1
    few = runs.assign(depth=depth.astype("float64"), activations=np.nan, multiply_adds=np.nan)
    return few[(depth <= 5) & runs["run_id"].str.endswith(("#0", "#1", "#2"))].reset_index(
        drop=True
    )


def with_other_outcomes(runs: pd.DataFrame, rows: np.ndarray) -> pd.DataFrame:
    """The same runs, some of which measured what others of them did, and less evenly spread."""
    measured = [name for name in PROFILE_COLUMNS if name in runs and runs[name].notna().all()]
    others = runs.copy()
    mixed = runs.loc[np.random.default_rng(0).permutation(rows), measured].to_numpy(np.float64)
    others.loc[rows, measured] = mixed**1.5
    return others


def answers(evaluate, *arguments):
    """All that is told of each run: values, bounds, whether it is inside, and trivial answers."""
    kept = []
    evaluate(*arguments, kept.append)
    return [one.rows.drop(columns=["observed", "fold"], errors="ignore") for one in kept]


def same(told, given, rows):
    """Whether what was told of some rows is, to the last bit, what is told when these are given."""
    return told.loc[rows].reset_index(drop=True).equals(given)


@pytest.mark.parametrize(
    ("split", "folds"),
    [
        ("configuration", lambda runs: memory_configuration_folds(runs, FOLDS, 0)),
        ("extrapolation", extrapolation_folds),
    ],
)
def test_memory_that_is_held_out_is_told_by_the_other_runs_alone(runs, split, folds):
    rows, options = folds(usable(runs))[-1].test, QuadraticOptions(folds=2)
    others, asked = runs.drop(rows), with_other_outcomes(runs, rows).loc[rows]
    [told] = answers(evaluate_memory, runs, [split], 0, options)
    [given] = answers(evaluate_given_memory, others, asked, 0, options)
    assert same(told, given, rows)


@pytest.mark.parametrize(
    ("split", "folds"),
    [
        ("configuration", lambda runs: memory_configuration_folds(runs, 5, 0)),
        ("family", lambda runs: memory_family_folds(runs, 20, 0)),
    ],
)
def test_signals_that_are_held_out_are_told_by_the_other_runs_alone(runs, split, folds):
    """Even the spread by which signals are divided: that of one family tells of no other."""
    rows = folds(measured_signals(runs)[0])[0].test
    others, asked = runs.drop(rows), with_other_outcomes(runs, rows).loc[rows]
    told = answers(evaluate_demand, runs, [split], 0, QUICK)
    given = answers(evaluate_given_demand, others, asked, 0, QUICK)
    assert len(told) == len(given) > 1
    assert all(same(one, other, rows) for one, other in zip(told, given, strict=True))


def test_intervals_rest_on_forests_that_knew_no_spread_of_what_they_were_asked(runs):
    [fold, *_] = memory_family_folds(runs, 20, 0)
    told = []
    for measured in (runs, with_other_outcomes(runs, fold.test)):
        signals = measured_signals(measured)[1]
        found = held_out_demand(measured, signals, [fold], QUICK, 0)
        told.append(np.array([found[one.name]["value"] for one in signals]))
        told.append(np.array([found[one.name]["spread"] * one.scale for one in signals]))
    assert np.array_equal(told[0], told[2])
    assert np.allclose(told[1], told[3], rtol=1e-12)


def test_signal_that_most_runs_lack_is_learnt_in_no_fold(runs):
    """Though most runs have it beside the family that is held out first."""
    learnt = memory_family_folds(runs, 20, 0)[0].train
    rare = runs["gpu_util_mean"].where(runs.index.isin(learnt[1:]))
    rows = evaluate_demand(runs.assign(fp32_active_mean=rare), ["family"], 0, QUICK)
    assert {"family", "family:gpu_util_mean"} < {row["split"] for row in rows}
    assert "family:fp32_active_mean" not in {row["split"] for row in rows}
