"""Rows of the table of prediction quality."""

import json

import numpy as np
import pytest

from benchmarks.quality_choice import score
from benchmarks.quality_row import at_least, at_most, interval_rows, plain, row_facts, row_text


@pytest.mark.parametrize(
    ("row", "holds"),
    [
        (at_least(plain("pairs", 0.90, "R²", "colocast"), 0.9), True),
        (at_least(plain("pairs", float("nan"), "R²", "colocast"), 0.9), False),
        (at_most(plain("pairs", 0.04, "", "colocast"), 0.035), False),
    ],
)
def test_a_goal_is_reached_or_missed_and_unknown_is_missed(row, holds):
    assert row.holds is holds
    assert ("reached" if holds else "missed") in row_text(row)


@pytest.mark.parametrize(
    ("share", "holds"), [(0.87, False), (0.89, True), (0.92, True), (0.93, False)]
)
def test_intervals_may_hold_neither_too_little_nor_too_much(share, holds):
    rows = list(interval_rows("pairs", {"coverage_90": share, "coverage_90_worst": None}, ""))
    assert [row.holds for row in rows] == [holds]


def test_worst_tenth_and_errors_outside_are_rows_where_they_are_known():
    found = {
        "coverage_90": 0.9,
        "coverage_90_worst": 0.7,
        "in_domain_share": 0.75,
        "error_inside": 0.1,
        "error_outside": 0.3,
    }
    rows = {row.what: row for row in interval_rows("pairs", found, "")}
    assert rows["pairs, coverage, worst tenth"].holds is False
    assert rows["pairs, rows outside what was learnt"].value == 0.25
    assert rows["pairs, mean error outside"].value == 0.3


def test_what_exceeds_a_target_makes_up_for_nothing():
    assert score([(9.0, 0.6), (0.0, 0.0)]) == pytest.approx(0.5)


def test_rows_of_numpys_numbers_can_be_stored():
    row = at_most(plain("pairs", np.float64(0.04), "", "", np.float64("nan")), 0.035)
    assert json.loads(json.dumps(row_facts(row), allow_nan=False))["holds"] is False
