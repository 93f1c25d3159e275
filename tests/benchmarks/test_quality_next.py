"""The order in which pairs are measured is chosen without what is held out."""

import numpy as np
import pandas as pd
import pytest

from benchmarks import quality_next
from benchmarks.next_curves import curve, inner_trial, outer_trial
from benchmarks.next_orders import predictive_information
from tests.pipelines.interference.programs import runs_of_five


@pytest.fixture(scope="module")
def runs():
    return runs_of_five()


@pytest.fixture(scope="module")
def outer(runs):
    return outer_trial(runs, 0)


def test_a_fifth_is_asked_about_and_never_measured(outer):
    assert len(outer.test) == (len(outer.test) + len(outer.pool)) // 5
    assert not np.isin(outer.test, outer.pool).any()


def test_pairs_are_numbered_in_either_direction(outer):
    some = outer.labels.head(4)
    swapped = some.rename(columns={"job_key": "neighbour_key", "neighbour_key": "job_key"})
    assert outer.numbers(swapped) == outer.pair[:4].tolist()


def test_what_an_order_is_chosen_by_knows_nothing_of_what_is_held_out(runs, outer):
    is_held_out = runs["run_id"].isin(outer.of(outer.test)["run_id"])
    strange = runs.assign(jct_s=runs["jct_s"] * np.where(is_held_out, 1.5, 1.0))
    found = [inner_trial(outer_trial(each, 0), 0, 1) for each in (runs, strange)]
    pd.testing.assert_frame_equal(found[0].labels, found[1].labels, check_exact=True)
    assert np.array_equal(found[0].pool, found[1].pool)


def test_each_draw_chooses_the_order_of_the_best_curve(monkeypatch, outer):
    curves = {None: [0.0, 0.5, 0.5], predictive_information: [0.0, 0.4, 0.7]}
    monkeypatch.setattr(quality_next, "ORDERS", {"random": None, "told": predictive_information})
    monkeypatch.setattr(quality_next, "curve", lambda trial, order, steps: curves[order])
    assert quality_next.choices([[outer], [outer]]) == ["told", "told"]


def test_a_curve_has_a_score_for_each_step(monkeypatch, outer):
    monkeypatch.setattr("benchmarks.next_curves.START", 6)
    monkeypatch.setattr("benchmarks.next_curves.STEP", 2)
    assert len(curve(outer, predictive_information, 1)) == len(curve(outer, None, 1)) == 2
