"""Designs, rules and pairs are chosen without what is held out or not measured yet."""

from functools import partial

import numpy as np
import pandas as pd
import pytest

from benchmarks import quality_intervals
from benchmarks.nested import CHOSEN
from benchmarks.next_curves import measured_so_far
from benchmarks.quality_designs import LOG, by_options, chosen
from pipelines.interference import effects_fit
from pipelines.interference.calibration import possible_folds
from pipelines.interference.fit import ForestOptions
from pipelines.labelling.audit import audited
from tests.pipelines.interference.programs import PROGRAMS, runs_of_five

DESIGNS = {"few trees": ForestOptions(trees=2), "more trees": ForestOptions(trees=4)}


@pytest.fixture(scope="module")
def runs():
    return runs_of_five()


@pytest.fixture(scope="module")
def labels(runs):
    return audited(runs).labels.reset_index(drop=True)


def otherwise(runs, labels, is_known):
    """Return runs of which those without a known label took up to twice as long."""
    factor = np.random.default_rng(0).uniform(1, 2, len(runs))
    is_other = runs["run_id"].isin(labels["run_id"][~is_known])
    found = runs.assign(jct_s=runs["jct_s"] * np.where(is_other, factor, 1.0))
    assert audited(found).noise.floor < audited(runs).noise.floor - 0.02
    return found


def test_only_pairs_that_were_measured_are_learnt_from(runs, labels):
    is_known = labels["job_key"].isin(PROGRAMS[:3]) & labels["neighbour_key"].isin(PROGRAMS[:3])
    found = [
        measured_so_far(each, labels[is_known])
        for each in (runs, otherwise(runs, labels, is_known.to_numpy()))
    ]
    assert found[0]["run_id"].tolist() == labels["run_id"][is_known].tolist()
    pd.testing.assert_frame_equal(*found, check_exact=True)


def test_designs_are_chosen_without_what_is_held_out(monkeypatch, runs, labels):
    monkeypatch.setattr(effects_fit, "ITERATIONS", 2)
    fold = max(possible_folds("pair", labels, 5, 0), key=lambda fold: len(fold.test))
    strange = otherwise(runs, labels, np.isin(np.arange(len(labels)), fold.train))
    answers = partial(by_options, designs=DESIGNS)
    found = [chosen(each, labels, fold, "pair", answers) for each in (runs, strange)]
    assert CHOSEN in found[0]
    assert np.array_equal(*(each.drop(columns=LOG) for each in found))


def test_interval_rules_are_chosen_without_what_is_held_out(monkeypatch, runs, labels):
    monkeypatch.setattr(effects_fit, "ITERATIONS", 2)
    monkeypatch.setattr(quality_intervals, "OPTIONS", ForestOptions(trees=2))
    first = next(quality_intervals.worlds(runs, labels))
    strange = otherwise(runs, labels, np.isin(np.arange(len(labels)), first.fold.train))
    again = next(quality_intervals.worlds(strange, labels))
    pd.testing.assert_frame_equal(first.learnt.labels, again.learnt.labels, check_exact=True)
    assert first.bundle.spec.floor == again.bundle.spec.floor
