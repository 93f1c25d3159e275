from dataclasses import replace

import pytest

from data.domain import FinishedJob, Outcome, Segment
from serving.live import profiles as live_profiles
from serving.live.profiles import LiveProfiles, with_live_profiles

JOB = FinishedJob(
    "1", 1, "ada", "q", "fresh", 1, 0.0, 0.0, 10.0, Outcome.OK,
    segments=(Segment(0.0, 10.0, "c", "v100"),),
    signals={"gpu_util_mean": 0.4, "gpu_mem_peak_mib": 900.0},
)  # fmt: skip


def observed(*jobs):
    live = LiveProfiles()
    live.observe(jobs)
    return live


def test_one_exclusive_run_makes_a_profile():
    (row,) = observed(JOB).table.to_dict("records")
    assert (row["job_key"], row["gpu_model"], row["gpu_util_mean"]) == ("fresh", "v100", 0.4)
    assert (row["gpu_mem_peak_mib"], row["exclusive_jct_s"], row["runs"]) == (900.0, 10.0, 1.0)


@pytest.mark.parametrize(
    "change",
    [
        {"segments": (Segment(0.0, 10.0, "c", "v100", ("other",)),)},
        {"segments": (Segment(0.0, 5.0, "c", "v100"), Segment(5.0, 10.0, "d", "a100"))},
        {"segments": ()},
        {"signals": {}},
        {"outcome": Outcome.FAILED},
        {"gpus": 2},
    ],
)
def test_what_was_not_measured_alone_makes_none(change):
    assert len(observed(replace(JOB, **change)).table) == 0


def test_profile_is_the_median_over_the_runs():
    jobs = [replace(JOB, job_id=str(n), signals={"gpu_util_mean": n / 10}) for n in (1, 2, 9, 3)]
    assert observed(*jobs).table.loc[0, "gpu_util_mean"] == pytest.approx(0.25)


def test_table_changes_only_where_that_moves_the_median_much():
    live, tables = LiveProfiles(), []
    for n in range(20):
        live.observe([replace(JOB, job_id=str(n))])
        tables.append(id(live.table))
    assert len(set(tables)) == 5  # after runs 1, 2, 4, 8 and 16


def test_number_of_keys_is_bounded(monkeypatch):
    monkeypatch.setattr(live_profiles, "MOST_KEYS", 2)
    live = observed(*[replace(JOB, job_id=str(n), job_key=f"k{n}") for n in range(5)])
    assert live.table["job_key"].tolist() == ["k0", "k1"]


def test_what_training_knew_stands(profiles):
    live = observed(replace(JOB, job_key="k1"), JOB).table
    both = with_live_profiles(profiles, live)
    assert len(both) == len(profiles) + 1
    assert both.iloc[-1]["job_key"] == "fresh"
    assert list(both.dtypes) == list(profiles.dtypes)
    assert with_live_profiles(profiles, live[live["job_key"] == "k1"]) is profiles
