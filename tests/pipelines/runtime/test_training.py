import numpy as np
import pandas as pd
import pytest

from data.errors import SettingError
from features.history import RuntimeHistory
from pipelines.runtime.fit import fitted_models
from pipelines.runtime.rows import job_rows
from pipelines.runtime.training import train_runtime
from serving.inference.runtime import runtime_estimates


def test_training_twice_with_one_seed_gives_the_same_models(finished_jobs):
    first, second = (train_runtime(finished_jobs(300), seed=3) for _ in range(2))
    assert first[0].spec == second[0].spec
    assert first[1].spec == second[1].spec


def test_report_says_how_well_the_newest_jobs_were_predicted(finished_jobs):
    reports = train_runtime(finished_jobs(600), seed=0)[2:]
    for report in reports:
        assert report.metrics["newest_n"] == 60
        assert report.metrics["newest_r2_log"] > 0.5
        assert set(report.figures) == {
            "predicted_against_measured.png",
            "coverage_by_history.png",
            "layers_by_history.png",
        }
        assert all(png.startswith(b"\x89PNG") for png in report.figures.values())


@pytest.mark.parametrize("n", [10, 11, 50])
def test_few_jobs_are_enough_and_their_keys_are_learnt(finished_jobs, n):
    jobs = finished_jobs(n)
    cluster, user, *_ = train_runtime(jobs, seed=0)
    history = RuntimeHistory()
    history.observe(jobs)
    answers = runtime_estimates(cluster, user, history.transform(jobs), np.zeros(n))
    error = np.abs(np.log(answers["value"]) - np.log(jobs["runtime_s"]))
    assert error.median() < 0.7
    inside = answers["lower"].le(jobs["runtime_s"]) & answers["upper"].ge(jobs["runtime_s"])
    assert inside.mean() > 0.8


def test_too_few_jobs_are_refused_with_what_was_found(finished_jobs):
    with pytest.raises(SettingError, match="found 9 finished jobs to learn runtimes"):
        train_runtime(finished_jobs(9), seed=0)


def test_runtimes_of_zero_are_survived(finished_jobs):
    jobs = finished_jobs(60)
    jobs.loc[:5, "runtime_s"] = 0.0
    jobs.loc[:5, "finish_time"] = jobs.loc[:5, "start_time"]
    assert train_runtime(jobs, seed=0)[0].spec.floor > 0


def test_a_large_batch_is_thinned_to_a_few_of_its_jobs(finished_jobs):
    jobs = finished_jobs(40)
    same = jobs.iloc[[0]].loc[np.repeat(0, 100)].reset_index(drop=True)
    same["job_id"] = [f"same-{i}" for i in range(100)]
    rows = job_rows(same).at_start
    assert len(rows.thinned(3, seed=0)) == 3
    assert len(job_rows(jobs).at_start.thinned(3, seed=0)) == 40


def test_what_the_newest_jobs_took_changes_no_answer_about_them(finished_jobs):
    """Not even that they outlived their limits, which until then no job had."""
    jobs = finished_jobs(600).assign(limit_s=lambda each: each["runtime_s"] * 1.1)
    newest = jobs["finish_time"].rank() > 540
    others = jobs.assign(runtime_s=jobs["runtime_s"].where(~newest, 1e7))
    others["finish_time"] = others["start_time"] + others["runtime_s"]
    models = fitted_models(job_rows(jobs), seed=0)
    early = models.early, fitted_models(job_rows(others), seed=0).early
    rows = models.judged.at_start.features
    told, again = (runtime_estimates(*each, rows, np.zeros(len(rows))) for each in early)
    pd.testing.assert_frame_equal(told, again, check_exact=True)
