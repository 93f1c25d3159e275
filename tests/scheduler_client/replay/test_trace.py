"""Columns of a trace are checked once."""

import numpy as np
import pytest

from data.errors import TableError
from scheduler_client.replay.trace import Trace

ONE = np.array([1, 1])
GOOD = {
    "job_ids": ("a", "b"),
    "arrival_s": np.array([0.0, 5.0]),
    "runtime_s": np.array([10.0, 20.0]),
    "gpus": ONE,
    "queue": ONE * 0,
    "workload": ONE * 0,
    "queues": ("only",),
}


def test_gpu_time_and_window_are_sums_of_the_columns():
    trace = Trace(**GOOD | {"gpus": np.array([1, 4])})
    assert (len(trace), trace.gpu_time_s, trace.window_s) == (2, 90.0, 5.0)


@pytest.mark.parametrize(
    ("name", "column"),
    [
        ("arrival_s", np.array([5.0, 0.0])),
        ("runtime_s", np.array([0.0, 1.0])),
        ("gpus", np.array([0, 1])),
        ("queue", np.array([0, 1])),
        ("workload", np.array([-1, 0])),
    ],
)
def test_column_out_of_range_is_named(name, column):
    with pytest.raises(TableError, match=name):
        Trace(**GOOD | {name: column})


def test_columns_of_different_lengths_are_refused():
    with pytest.raises(TableError, match="one length"):
        Trace(**GOOD | {"gpus": np.array([1])})
