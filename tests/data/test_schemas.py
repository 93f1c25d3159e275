"""The one check that a frame follows its table."""

import numpy as np
import pandas as pd
import pytest

from data.errors import TableError
from data.schemas import JOBS, LABELS, PROFILING_RUNS, TABLES, checked

JOB = {
    "job_id": ["1", "2"],
    "attempt": [0, 0],
    "user": ["ann", "bob"],
    "queue": ["q", "q"],
    "gpus": [1, 0],
    "submit_time": [0.0, 1.0],
    "start_time": [1.0, 1.0],
    "finish_time": [4.0, 2.0],
    "runtime_s": [3.0, 1.0],
    "outcome": ["ok", "oom"],
}


def jobs(**columns) -> pd.DataFrame:
    return pd.DataFrame(JOB | columns)


def test_columns_come_in_the_order_of_the_table():
    assert list(checked(jobs()[sorted(JOB)], JOBS, "jobs.csv").columns) == JOBS.names


def test_absent_optional_columns_are_missing_and_typed():
    table = checked(jobs(), JOBS, "jobs.csv")
    assert table["cpus"].isna().all()
    assert (table["cpus"].dtype, table["job_key"].dtype) == (np.float64, "str")


def test_index_is_fresh_and_input_unchanged():
    frame = jobs().set_axis([7, 9])
    before = frame.copy()
    assert checked(frame, JOBS, "jobs.csv").index.tolist() == [0, 1]
    pd.testing.assert_frame_equal(frame, before)


def test_empty_frame_is_a_valid_table():
    assert checked(pd.DataFrame(columns=LABELS.names), LABELS, "labels").empty


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (
            {"runtime_s": [3.0, -1.0]},
            r"row 2: found runtime_s = -1.0, wanted a number in \[0, inf\]",
        ),
        ({"runtime_s": [np.nan, 1.0]}, "row 1: found runtime_s = nan, wanted a number"),
        ({"runtime_s": [np.inf, 1.0]}, "row 1: found runtime_s = inf, wanted a number in"),
        ({"runtime_s": ["3", "soon"]}, "row 2: found runtime_s = soon, wanted a number"),
        ({"user": [None, "bob"]}, "row 1: found user = nan, wanted a text"),
        ({"outcome": ["ok", "fine"]}, "row 2: found outcome = fine, wanted one of ok, failed"),
        ({"job_id": ["1", "1"]}, "row 2: found job_id = 1 and attempt = 0.0 a second time"),
        ({"start_time": [5.0, 1.0]}, "row 1: found finish_time = 4.000 before start_time"),
        ({"start_time": [-1.0, 1.0]}, "row 1: found start_time = -1.000 before submit_time"),
        ({"colour": ["red", "blue"]}, "jobs.csv: found unknown columns 'colour'"),
    ],
)
def test_row_that_does_not_follow_the_table_is_named(columns, message):
    with pytest.raises(TableError, match=message):
        checked(jobs(**columns), JOBS, "jobs.csv")


def test_missing_column_is_named():
    with pytest.raises(
        TableError, match=r"jobs.csv: found no column 'user', wanted columns of jobs"
    ):
        checked(jobs().drop(columns="user"), JOBS, "jobs.csv")


def test_flag_must_be_true_or_false():
    run = {"run_id": ["a"], "job_key": ["k"], "family": ["f"], "gpu_model": ["v100"]}
    frame = pd.DataFrame(run | {"is_exclusive": ["maybe"], "outcome": ["ok"]})
    with pytest.raises(TableError, match="found is_exclusive = maybe, wanted true or false"):
        checked(frame, PROFILING_RUNS, "runs.csv")


def test_checking_twice_changes_nothing():
    once = checked(jobs(), JOBS, "jobs.csv")
    pd.testing.assert_frame_equal(checked(once, JOBS, "jobs.csv"), once)


@pytest.mark.parametrize("table", TABLES.values(), ids=list(TABLES))
def test_key_and_order_are_columns_that_may_not_be_confused(table):
    assert set(table.key) | set(table.order) <= set(table.names)
    assert len(set(table.names)) == len(table.names)
    assert not any(column.nullable for column in table.columns if column.name in table.key)
