"""Profiles from profiling runs."""

import pandas as pd
import pytest

from data.domain import PROFILE_COLUMNS
from data.schemas import PROFILES
from features.profiles import profiles, proven_exclusive

RUNS = pd.DataFrame(
    {
        "run_id": list("abcdef"),
        "job_key": ["wide"] * 6,
        "family": ["w"] * 6,
        "gpu_model": ["v100"] * 5 + ["p100"],
        "neighbour_key": [None, None, "deep", None, None, None],
        "is_exclusive": [True, True, False, False, True, True],
        "outcome": ["ok", "ok", "ok", "ok", "failed", "ok"],
        "jct_s": [10.0, 14.0, 30.0, 99.0, 1.0, 20.0],
        "gpu_util_mean": [0.2, 0.4, 0.9, 0.9, 0.9, 0.6],
        "gpu_mem_peak_mib": [100.0, None, 900.0, 900.0, 900.0, 50.0],
    }
)


def test_profile_is_the_median_of_proven_exclusive_runs():
    row = profiles(RUNS).set_index(["job_key", "gpu_model"]).loc[("wide", "v100")]
    assert row["gpu_util_mean"] == pytest.approx(0.3)
    assert (row["exclusive_jct_s"], row["runs"]) == (12.0, 2.0)


def test_missing_reading_counts_neither_as_zero_nor_at_all():
    row = profiles(RUNS).set_index("gpu_model").loc["v100"]
    assert row["gpu_mem_peak_mib"] == 100.0


def test_signal_that_nobody_measured_is_missing():
    table = profiles(RUNS)
    assert table.columns.tolist() == PROFILES.names
    measured = {"gpu_util_mean", "gpu_mem_peak_mib"}
    assert table[[name for name in PROFILE_COLUMNS if name not in measured]].isna().all(axis=None)


def test_each_gpu_model_has_its_own_profile():
    assert profiles(RUNS)["gpu_model"].tolist() == ["p100", "v100"]


def test_order_of_runs_does_not_matter_and_input_is_unchanged():
    before = RUNS.copy()
    pd.testing.assert_frame_equal(profiles(RUNS.iloc[::-1]), profiles(RUNS))
    pd.testing.assert_frame_equal(RUNS, before)


def test_no_exclusive_run_gives_no_profile():
    assert profiles(RUNS[RUNS["neighbour_key"].notna()]).empty


def test_unproven_failed_and_colocated_runs_are_not_exclusive():
    assert proven_exclusive(RUNS).tolist() == [True, True, False, False, False, True]


def test_count_spread_and_age_are_kept_with_the_medians():
    runs = RUNS.assign(finish_time=[10.0, 30.0, 99.0, 99.0, 99.0, 20.0])
    row = profiles(runs).set_index("gpu_model").loc["v100"]
    assert (row["runs"], row["newest_time"]) == (2, 30.0)
    assert row["jct_spread"] == pytest.approx(4 / 12)
    assert row["signal_spread"] == pytest.approx(0.2)


def test_one_run_has_no_spread():
    row = profiles(RUNS).set_index("gpu_model").loc["p100"]
    assert row[["jct_spread", "signal_spread", "newest_time"]].isna().all()


def test_the_exclusive_part_of_a_shared_run_gives_signals_but_no_jct():
    shared = RUNS[RUNS["neighbour_key"].notna()].assign(exclusive_s=20.0, gpu_util_mean=0.3)
    (row,) = profiles(shared).to_dict("records")
    assert (row["gpu_util_mean"], row["runs"]) == (0.3, 1)
    assert pd.isna(row["exclusive_jct_s"])
    both = pd.concat([RUNS[RUNS["neighbour_key"].isna()], shared], ignore_index=True)
    row = profiles(both).set_index("gpu_model").loc["v100"]
    assert (row["gpu_util_mean"], row["exclusive_jct_s"], row["runs"]) == (0.3, 12.0, 3)
