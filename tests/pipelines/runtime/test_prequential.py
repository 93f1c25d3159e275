import numpy as np
import pandas as pd
import pytest

from pipelines.runtime.prequential import Questions, prequential_estimates
from pipelines.runtime.rows import job_rows

DAY_S = 86_400.0


def estimates(jobs: pd.DataFrame, progress=iter) -> pd.DataFrame:
    rows = job_rows(jobs)
    asked = Questions(rows.at_submission.features, jobs["submit_time"].to_numpy())
    return prequential_estimates(rows, {"all": asked}, DAY_S, 0, progress)["all"]


def test_every_job_is_estimated_once(finished_jobs):
    jobs = finished_jobs(200, span_s=3 * DAY_S)
    assert estimates(jobs).index.equals(jobs.index)


def test_before_enough_jobs_have_finished_answers_are_cold_starts(finished_jobs):
    jobs = finished_jobs(200, span_s=3 * DAY_S)
    answers = estimates(jobs)
    first_fit = jobs["submit_time"].min() + DAY_S
    early = jobs["submit_time"] < first_fit
    assert answers.loc[early, "source"].eq("cold_start").all()
    assert answers.loc[~early, "source"].ne("cold_start").mean() > 0.9


def test_what_happens_later_changes_no_estimate(finished_jobs):
    jobs = finished_jobs(200, span_s=3 * DAY_S)
    moment = jobs["submit_time"].quantile(0.6)
    future = jobs["finish_time"] >= moment
    changed = jobs.copy()
    changed.loc[future, "runtime_s"] *= 50
    changed.loc[future, "finish_time"] = changed["start_time"] + changed["runtime_s"] + 1e5
    before = jobs["submit_time"] < moment
    pd.testing.assert_frame_equal(estimates(jobs)[before], estimates(changed)[before])


@pytest.mark.parametrize("seed", [0, 1])
def test_permuting_runtimes_that_are_not_known_yet_changes_no_estimate(finished_jobs, seed):
    jobs = finished_jobs(200, span_s=3 * DAY_S)
    moment = jobs["submit_time"].quantile(0.6)
    future = jobs["finish_time"] >= moment
    permuted = jobs.copy()
    values = np.random.default_rng(seed).permutation(jobs.loc[future, "runtime_s"])
    permuted.loc[future, "runtime_s"] = values
    ends = permuted["start_time"] + permuted["runtime_s"]
    permuted["finish_time"] = jobs["finish_time"].where(~future, ends.clip(lower=moment))
    before = jobs["submit_time"] < moment
    pd.testing.assert_frame_equal(estimates(jobs)[before], estimates(permuted)[before])


def test_progress_sees_one_moment_a_fit(finished_jobs):
    seen = []
    jobs = finished_jobs(60, span_s=3 * DAY_S)
    estimates(jobs, lambda moments: seen.extend(moments) or moments)
    assert len(seen) == 3
    assert np.allclose(np.diff(seen), DAY_S)
