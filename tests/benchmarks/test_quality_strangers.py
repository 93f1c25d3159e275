"""Rules for a family beside the only one that was learnt."""

import numpy as np
import pytest

from benchmarks import quality_strangers
from benchmarks.quality_strangers import (
    FIFTHS,
    KNOWN,
    RULES,
    SERVED,
    THIRDS,
    TREES,
    Rule,
    Told,
    told_of,
)
from data.sample_data import sample_runs
from pipelines.demand.fit import DemandOptions, measured_signals
from pipelines.initial_tables import sample_structures
from pipelines.labelling.from_runs import memory_runs_from_runs

TOLD = Told(  # one signal of two models
    value=np.zeros((2, 1)),
    most=np.array([np.inf]),
    reaches={
        KNOWN: np.array([[[-0.9], [-1.4]], [[0.9], [1.4]]]),
        TREES: np.array([[[-0.5], [-1.4]], [[0.5], [1.4]]]),
        FIFTHS: np.array([[-1.8], [1.8]]),
        THIRDS: np.array([[-2.7], [2.7]]),
    },
    learnt=np.array([[-0.5], [4.0]]),
)


@pytest.mark.parametrize(
    ("name", "upper"),
    [
        ("8 times the errors of configurations", [7.2, 11.2]),
        ("8 times the errors of configurations in what the trees differ by", [4.0, 11.2]),
        ("2 times the errors of thirds apart", [5.4, 5.4]),
        ("learnt range", [4.0, 4.0]),
    ],
)
def test_rule_counts_in_its_own_errors(name, upper):
    assert TOLD.ends(RULES[name])[1].ravel() == pytest.approx(upper)


def test_with_the_learnt_range_ends_are_the_outer_ones():
    assert TOLD.ends(Rule(4.0, ranged=True))[1].ravel().tolist() == pytest.approx([4.0, 5.6])


def test_ends_lie_where_the_signal_can_be():
    assert (TOLD.ends(Rule(1.0))[0] == 0).all()


def test_what_is_served_is_part_of_what_is_compared():
    assert set(SERVED) < set(RULES)


def test_what_is_told_of_models_needs_nothing_that_they_measured(monkeypatch):
    monkeypatch.setattr(quality_strangers, "OPTIONS", DemandOptions(trees=2, folds=2))
    runs, signals = measured_signals(memory_runs_from_runs(sample_runs(), sample_structures()))
    few, names = signals[:2], [each.name for each in signals]
    depth = 1.0 + runs["configuration"].factorize()[0]  # the only amount that is known
    runs = runs.assign(depth=depth, activations=np.nan, multiply_adds=np.nan)
    learnt, asked = (runs[runs["family"] == name] for name in ("convolution", "mlp"))
    told = told_of(learnt.reset_index(drop=True), asked, few)
    blind = told_of(learnt.reset_index(drop=True), asked.drop(columns=names), few)
    for rule in RULES.values():
        assert np.array_equal(told.ends(rule), blind.ends(rule))
