from dataclasses import replace

import pandas as pd
import pytest

from data.domain import FinishedJob, Outcome
from data.errors import TableError
from data.jobs_frame import jobs_frame
from data.schemas import JOBS

JOB = FinishedJob(
    "j1", 1, "ada", "research", "bert", 2, 10.0, 20.5, 80.0, Outcome.OK, limit_s=600.0, cpus=4
)


def test_each_job_is_a_row_with_its_runtime():
    frame = jobs_frame([JOB, replace(JOB, attempt=2, outcome=Outcome.OOM)])
    assert list(frame.columns) == JOBS.names
    assert frame["runtime_s"].tolist() == [59.5, 59.5]
    assert frame["outcome"].tolist() == ["ok", "oom"]
    assert frame.loc[0, ["gpus", "cpus", "limit_s"]].tolist() == [2.0, 4.0, 600.0]
    assert frame["mem_mib"].isna().all()


def test_no_jobs_are_an_empty_table_of_the_same_kinds():
    empty, full = jobs_frame([]), jobs_frame([JOB])
    assert empty.empty
    pd.testing.assert_series_equal(empty.dtypes, full.dtypes)


def test_the_same_attempt_twice_is_refused():
    with pytest.raises(TableError, match=r"job log, row 2: found job_id = .?j1.? and attempt"):
        jobs_frame([JOB, JOB])
