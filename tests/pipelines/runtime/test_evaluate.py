import json

import numpy as np
import pytest

from data.errors import SettingError
from features.history_groups import HISTORY_GROUPS
from pipelines.runtime.baselines import BASELINES, baseline_estimates
from pipelines.runtime.evaluate import batch_ceiling, evaluate_runtime

KEYS = {
    "split",
    "n",
    "r2",
    "r2_log",
    "mae",
    "within_2x",
    "under_rate",
    "coverage_90",
    "width_90_median",
    "baseline_r2",
    "ceiling_r2",
    "coverage_90_worst",
    "oracle_gain",
    "in_domain_share",
    "error_inside",
    "error_outside",
}


@pytest.fixture(scope="module")
def judged():
    return []


@pytest.fixture(scope="module")
def table(finished_jobs, judged):
    rows = evaluate_runtime(finished_jobs(250, span_s=4 * 86_400.0), keep=judged.append)
    return {row["split"]: row for row in rows}


def test_every_row_has_the_documented_keys_and_is_json(table):
    assert all(set(row) == KEYS for row in table.values())
    json.dumps(list(table.values()), allow_nan=False)


def test_splits_hold_every_job_at_submission_and_at_start(table):
    for suffix in ("", "@start"):
        assert table[f"all{suffix}"]["n"] == 250
        groups = [table.get(f"jobs_{group}{suffix}", {"n": 0})["n"] for group in HISTORY_GROUPS]
        assert sum(groups) == 250


def test_answers_for_all_and_gpu_jobs_are_kept_for_pictures(table, judged):
    kept = {one.split: one.rows for one in judged}
    wanted = {f"{jobs}{moment}" for jobs in ("all", "gpu") for moment in ("", "@start", "@1h")}
    assert kept.keys() == wanted
    assert all(len(rows) == table[split]["n"] for split, rows in kept.items())
    rows = kept["all@start"]
    inside = rows["observed"].between(rows["lower"], rows["upper"])
    assert inside.mean() == pytest.approx(table["all@start"]["coverage_90"])


def test_jobs_with_gpus_are_split_by_history_apart(table):
    groups = [table.get(f"gpu_jobs_{group}", {"n": 0})["n"] for group in HISTORY_GROUPS]
    assert sum(groups) == table["gpu"]["n"] > 0


def test_gain_of_the_oracle_is_told_for_gpu_jobs_at_submission_alone(table):
    told = {split for split, row in table.items() if row["oracle_gain"] is not None}
    assert told <= {"gpu", *(f"gpu/{name}" for name in (*BASELINES, "cluster_model"))}


def test_every_split_stands_beside_every_baseline(table):
    for name in (*BASELINES, "cluster_model"):
        assert f"all/{name}" in table
        assert f"gpu@start/{name}" in table


def test_keyed_jobs_are_predicted_better_than_by_the_users_median(table):
    assert table["all"]["r2_log"] > table["all/user_median"]["r2_log"] + 0.1
    assert 0.8 < table["all"]["coverage_90"] <= 1


def test_jobs_before_the_given_moment_are_history_only(finished_jobs):
    jobs = finished_jobs(300)
    moment = float(jobs["submit_time"].quantile(0.5))
    table = {row["split"]: row for row in evaluate_runtime(jobs, moment)}
    assert table["all"]["n"] == (jobs["submit_time"] >= moment).sum()
    assert "jobs_0" not in table


def test_no_job_after_the_given_moment_is_an_error(finished_jobs):
    with pytest.raises(SettingError, match="found no job submitted from"):
        evaluate_runtime(finished_jobs(20), 9e9)


@pytest.mark.parametrize(
    "change",
    [
        {"runtime_s": 0.0},
        {"limit_s": np.nan, "cpus": np.nan, "mem_mib": np.nan},
        {"submit_time": 1.6e9, "start_time": 1.6e9},
        {"user": "all", "queue": "one", "job_key": None},
        {"gpus": 0.0},
    ],
)
@pytest.mark.parametrize("n", [1, 30])
def test_any_log_is_measured(finished_jobs, n, change):
    jobs = finished_jobs(n).assign(**change)
    jobs["finish_time"] = jobs["start_time"] + jobs["runtime_s"]
    table = {row["split"]: row for row in evaluate_runtime(jobs)}
    assert table["all"]["n"] == n
    assert 0 <= table["all"]["coverage_90"] <= 1


def test_baselines_know_only_what_had_finished(finished_jobs):
    jobs = finished_jobs(50)
    early = baseline_estimates(jobs, jobs["submit_time"].to_numpy()).loc[0]
    assert early.drop("requested_limit").eq(3600).all()
    late = baseline_estimates(jobs, np.full(50, 5e9)).loc[0]
    mine = jobs.loc[jobs["user"] == jobs.loc[0, "user"]].sort_values("finish_time")["runtime_s"]
    assert late["user_median"] == mine.tail(31).median()
    assert late["user_last_two"] == mine.tail(2).mean()
    assert late["constant"] == jobs["runtime_s"].median()


def test_ceiling_is_one_where_batches_do_not_vary(finished_jobs):
    jobs = finished_jobs(40)
    twice = jobs.loc[np.repeat(jobs.index, 2)].reset_index(drop=True)
    assert batch_ceiling(twice) == pytest.approx(1)
    assert batch_ceiling(jobs) is None
