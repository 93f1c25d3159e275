import numpy as np
import pandas as pd
import pytest

from features.digests import column_digests, row_digests
from features.started_jobs import (
    STARTED_STATISTICS,
    STARTED_WINDOW,
    RunningNow,
    Started,
    started_statistics,
)

NAN = float("nan")


def started(ago_s, lasted_s, running, submit_time):
    columns = (np.array([column], dtype=float) for column in (ago_s, lasted_s, submit_time))
    ago, lasted, submitted = columns
    return Started(ago, lasted, np.array([running]), submitted)


def statistics(found, submit_time=1000.0, anchor_log=0.0):
    values = started_statistics(found, np.array([submit_time]), np.array([anchor_log]))
    return {name: float(column[0]) for name, column in values.items()}


def test_a_running_job_counts_with_what_it_has_lasted():
    found = statistics(started([60, 500], [60, 10], [True, False], [900, 0]))
    assert tuple(found) == STARTED_STATISTICS
    assert (found["started"], found["running"], found["dead"]) == (2, 0.5, 0.5)
    assert found["longest"] == found["running_mean"] == pytest.approx(np.log(60))
    assert found["lasted_mean"] == pytest.approx((np.log(60) + np.log(10)) / 2)
    assert found["lasted_median"] == pytest.approx(found["lasted_mean"])
    assert found["lasted_last"] == pytest.approx(np.log(60))
    assert (found["near"], found["near_running"]) == (1, 1)


def test_nothing_started_is_told_by_missing_values():
    found = statistics(started([NAN], [NAN], [False], [NAN]))
    assert (found.pop("started"), found.pop("near")) == (0, 0)
    assert np.isnan(list(found.values())).all()


def test_times_are_told_from_the_anchor():
    plain = statistics(started([60], [60], [True], [900]))
    told = statistics(started([60], [60], [True], [900]), anchor_log=2.0)
    for name in ("longest", "running_mean", "lasted_mean", "lasted_median", "lasted_last"):
        assert told[name] == pytest.approx(plain[name] - 2)


def test_the_newest_of_both_are_kept_in_order():
    mine = started([5, 50], [5, 9], [True, False], [1, 2])
    theirs = started([20, NAN], [20, NAN], [True, False], [3, NAN])
    both = mine.with_others(theirs)
    assert both.ago_s.tolist() == [[5, 20]]
    assert both.submit_time.tolist() == [[1, 3]]
    assert both.is_running.tolist() == [[True, True]]


def test_running_jobs_are_found_by_key_without_the_asked_one():
    names = pd.Series(["a", "b", "c"])
    running = pd.DataFrame(
        {"job_id": names, "submit_time": [1.0, 2.0, 3.0], "elapsed_s": [30.0, 10.0, 20.0]}
    )
    keys = row_digests([pd.Series(["u", "u", "v"])])
    found = RunningNow(keys, running).started(keys[:1], column_digests(names[:1]))
    elapsed_s = found.lasted_s[0]
    assert elapsed_s[~np.isnan(elapsed_s)].tolist() == [10.0]
    assert found.ago_s.shape == (1, STARTED_WINDOW + 1)
