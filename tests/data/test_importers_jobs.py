"""The layouts of Philly and of Slurm accounting."""

import numpy as np
import pandas as pd
import pytest

from data.errors import TableError
from data.importers import philly, slurm


@pytest.fixture
def philly_jobs(fixtures):
    return philly.read(fixtures / "philly")["jobs"]


@pytest.fixture
def slurm_jobs(fixtures):
    return slurm.read(fixtures / "slurm" / "jobs_core.csv")["jobs"].set_index("job_id")


def seconds(text: str) -> float:
    return pd.Timestamp(text).timestamp()


def test_philly_virtual_cluster_is_queue_and_user(philly_jobs):
    assert philly_jobs["queue"].tolist() == philly_jobs["user"].tolist() == ["vc-a", "vc-b", "vc-a"]


def test_philly_cluster_hash_that_looks_like_a_number_stays_a_text(edited):
    jobs = philly.read(
        edited("philly", "philly_vc.csv", lambda frame: frame.assign(cluster="6214e9"))
    )
    assert set(jobs["jobs"]["queue"]) == {"6214e9"}


def test_philly_start_is_the_submission(philly_jobs):
    first = philly_jobs.iloc[0]
    assert first["submit_time"] == first["start_time"] == seconds("2017-10-02T00:00:10Z")
    assert first["finish_time"] - first["start_time"] == first["runtime_s"] == 60.0


def test_philly_repeated_rows_are_kept_under_their_own_ids(philly_jobs):
    assert philly_jobs["job_id"].tolist() == ["philly-1", "philly-2", "philly-3"]


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("duration", 60000.0, "row 2: found gpu_time = 3600.0, wanted duration .* x num_gpus"),
        ("duration", -1.0, "row 2: found duration = -1.0"),
        ("timestamp", "yesterday", "row 2: found timestamp = yesterday, wanted a date"),
        ("timestamp", np.nan, "row 2: found timestamp = nan, wanted a date, not missing"),
        ("cluster", np.nan, "row 2: found cluster = nan, wanted a text"),
    ],
)
def test_philly_bad_value_names_the_row(with_value, column, value, message):
    folder = with_value("philly", "philly_vc.csv", column, 2, value)
    with pytest.raises(TableError, match=f"philly_vc.csv, {message}"):
        philly.read(folder)


def test_slurm_wall_clock_becomes_utc_by_the_cluster(slurm_jobs):
    assert slurm_jobs.loc["graham/11", "submit_time"] == seconds("2021-05-01T14:00:00Z")
    assert slurm_jobs.loc["cedar/12", "submit_time"] == seconds("2021-05-01T17:00:00Z")


def test_slurm_run_over_the_end_of_summer_time_keeps_its_length(slurm_jobs):
    job = slurm_jobs.loc["graham/13"]
    assert job["runtime_s"] == job["finish_time"] - job["start_time"] == 10800.0


def test_slurm_users_and_queues_carry_their_cluster(slurm_jobs):
    assert slurm_jobs["user"].tolist() == ["graham/7", "cedar/7", "graham/9"]
    assert slurm_jobs["queue"].tolist() == ["graham/21", "cedar/21", "graham/8"]


def test_slurm_gpus_come_from_the_requested_resources(slurm_jobs):
    assert slurm_jobs["gpus"].tolist() == [2.0, 0.0, 0.0]


def test_slurm_whole_node_memory_is_missing(slurm_jobs):
    assert slurm_jobs["mem_mib"].isna().tolist() == [False, True, False]


def test_slurm_states_become_outcomes(slurm_jobs):
    assert slurm_jobs["outcome"].tolist() == ["ok", "timeout", "oom"]


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("run_time_sec", 60, "row 2: found run_time_sec = 60, wanted end_time - start_time"),
        ("run_time_sec", -3600, "row 2: found run_time_sec = -3600"),
        ("state", "ASLEEP", "row 2: found state = ASLEEP, wanted one of COMPLETED"),
        ("cluster", "moon", "row 2: found cluster = moon, wanted one of cedar, graham"),
        ("req_tres", "gres/gpu=many", "row 2: found req_tres = gres/gpu=many, wanted gres/gpu=N"),
        ("submit_time", "2021-05-01 10:40:00", "row 2: found start_time = .*, wanted a start not"),
        ("time_limit_sec", 0, "row 2: found time_limit_sec = 0, wanted a number above 0"),
    ],
)
def test_slurm_bad_value_names_the_row(with_value, column, value, message):
    folder = with_value("slurm", "jobs_core.csv", column, 2, value)
    with pytest.raises(TableError, match=f"jobs_core.csv, {message}"):
        slurm.read(folder / "jobs_core.csv")


def test_slurm_job_listed_twice_is_refused(edited):
    folder = edited("slurm", "jobs_core.csv", lambda frame: pd.concat([frame, frame.tail(1)]))
    with pytest.raises(TableError, match="row 4: found cluster = graham, job_unique_id = 13 a sec"):
        slurm.read(folder / "jobs_core.csv")


def test_slurm_parquet_with_timestamps_reads_the_same(fixtures, tmp_path, slurm_jobs):
    frame = pd.read_csv(fixtures / "slurm" / "jobs_core.csv")
    for column in ("submit_time", "start_time", "end_time"):
        frame[column] = pd.to_datetime(frame[column])
    frame.to_parquet(tmp_path / slurm.FILE)
    jobs = slurm.read(tmp_path)["jobs"].set_index("job_id")
    pd.testing.assert_frame_equal(jobs, slurm_jobs)


def test_public_files_give_every_job(public_data):
    assert len(philly.read(public_data / "philly")["jobs"]) == 82_247
    jobs = slurm.read(public_data / "drac-slurm")["jobs"]
    assert len(jobs) == 249_062
    assert (jobs["gpus"] > 0).sum() == 28_830
