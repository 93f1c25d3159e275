"""Designs of the memory model, and that a fold's own rows choose among them."""

import numpy as np
import pandas as pd
import pytest

from benchmarks import quality_terms
from benchmarks.nested import CHOSEN, preferred
from benchmarks.quality_terms import DESIGNS, FACTS, OUTPUTS, SHIPPED, SPLITS, by_design, chosen
from data.domain import ModelStructure
from features.structure import structures_frame
from pipelines.memory.fit import PEAK, QuadraticOptions, uncalibrated_memory_bundle
from serving.inference.memory import memory_estimates_of_rows


@pytest.fixture(scope="module")
def runs():
    """Models of two frameworks' versions; one of them takes twice the memory."""
    random = np.random.default_rng(0)
    dense = random.integers(2**18, 2**25, 60)
    versions = np.where(np.arange(60) % 2, "a/2", "a/1")
    structures = structures_frame(
        ModelStructure("mlp", 8, framework=str(version), dense_parameters=int(weights))
        for weights, version in zip(dense, versions, strict=True)
    )
    names = [str(at) for at in range(60)]
    peak = (500 + 4 * dense / 2**18) * np.where(versions == "a/2", 2, 1)
    return structures.assign(dataset="d", configuration=names, **{PEAK: peak, OUTPUTS: 1.0})


@pytest.mark.parametrize("split", SPLITS)
def test_terms_are_chosen_without_what_is_held_out(split, runs, monkeypatch):
    few = {name: DESIGNS[name] for name in ("nothing apart", SHIPPED)}
    monkeypatch.setattr(quality_terms, "DESIGNS", few)
    fold = SPLITS[split](runs)[-1]
    otherwise = runs.copy()
    otherwise.loc[fold.test, PEAK] *= 10
    found = [chosen(each, fold, SPLITS[split]) for each in (runs, otherwise)]
    pd.testing.assert_frame_equal(*(each.drop(columns=PEAK) for each in found), check_exact=True)
    assert found[0][CHOSEN].equals(found[0][SHIPPED])  # versions do differ


def test_shipped_design_answers_as_the_service_does(runs):
    fold = SPLITS["configuration"](runs)[0]
    bundle = uncalibrated_memory_bundle(runs.iloc[fold.train], QuadraticOptions())
    served = memory_estimates_of_rows(bundle, runs.iloc[fold.test])["value"]
    assert by_design(runs, fold)[SHIPPED].tolist() == served.tolist()


def test_design_that_the_data_cannot_tell_is_left_out(runs):
    fold = SPLITS["configuration"](runs)[0]
    told = by_design(runs.drop(columns=OUTPUTS), fold).columns.drop(FACTS)
    assert set(DESIGNS) - set(told) == {"all outputs of layers, without the largest tensor"}


def test_of_equal_candidates_the_first_is_preferred():
    errors = {"one": 1.0, "other": 0.5, "same": 0.5 - 1e-15, "too": 0.5}
    assert preferred("fold", pd.Series(errors)) == "other"


def test_better_candidate_is_preferred_wherever_it_stands():
    assert preferred("fold", pd.Series({"one": 0.5, "other": 0.5 - 1e-6})) == "other"
