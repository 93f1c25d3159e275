import numpy as np
import pytest

from data.domain import JobRequest
from features.requests import (
    REQUEST_COLUMNS,
    REQUEST_FEATURES,
    limit_log,
    request_features,
    requests_frame,
    running_frame,
)

# 2021-05-24 06:00 UTC was a Monday
MONDAY_SIX = 1_621_836_000.0
REQUEST = JobRequest("1", "ada", "vision", "resnet", MONDAY_SIX, 2, cpus=4, mem_mib=400)


def test_request_becomes_a_row_with_missing_values_where_it_says_nothing():
    frame = requests_frame([REQUEST])
    assert list(frame.columns) == list(REQUEST_COLUMNS)
    assert frame.loc[0, "gpus"] == 2
    assert np.isnan(frame.loc[0, "limit_s"])


def test_no_requests_become_an_empty_frame_with_the_same_types():
    assert requests_frame([]).dtypes.equals(requests_frame([REQUEST]).dtypes)


def test_features_are_numbers_in_the_order_of_their_spec():
    features = request_features(requests_frame([REQUEST]))
    assert list(features.columns) == list(REQUEST_FEATURES)
    assert (features.dtypes == np.float64).all()
    assert features.loc[0, "submit_hour"] == pytest.approx(6)
    assert features.loc[0, "submit_weekday"] == 0
    assert features.loc[0, "mem_per_cpu_log"] == pytest.approx(np.log(101))


def test_features_tell_nothing_of_who_asks():
    other = JobRequest("2", "bob", "speech", "bert", MONDAY_SIX, 2, cpus=4, mem_mib=400)
    features = request_features(requests_frame([REQUEST, other]))
    assert features.iloc[0].equals(features.iloc[1].rename(0))


def test_limit_of_zero_is_no_limit():
    frame = requests_frame([JobRequest("1", "ada", "q", "k", 0.0, limit_s=0.0)])
    assert limit_log(frame["limit_s"]).isna().all()


def test_running_jobs_are_requests_with_their_elapsed_time():
    frame = running_frame([JobRequest("7", "ada", "q", "k", 0.0, elapsed_s=30.0)])
    assert list(frame.columns) == [*REQUEST_COLUMNS, "elapsed_s"]
    assert frame.loc[0, "elapsed_s"] == 30
    assert running_frame([]).dtypes.equals(frame.dtypes)
