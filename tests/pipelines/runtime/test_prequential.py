import numpy as np
import pandas as pd
import pytest

from pipelines.runtime.baselines import baseline_estimates
from pipelines.runtime.prequential import Questions, prequential_estimates
from pipelines.runtime.rows import JobRows, job_rows

DAY_S = 86_400.0


HOUR_S = 3600.0


def asked(jobs: pd.DataFrame) -> tuple[JobRows, dict[str, Questions]]:
    """All jobs at their submission and start, and those that run for an hour once they have."""
    rows = job_rows(jobs)
    start_time, runs_on = jobs["start_time"].to_numpy(), jobs["runtime_s"].gt(HOUR_S).to_numpy()
    later = rows.at_start.features[runs_on]
    return rows, {
        "all": Questions(rows.at_submission.features, jobs["submit_time"].to_numpy()),
        "start": Questions(rows.at_start.features, start_time),
        "hour": Questions(later, start_time[runs_on] + HOUR_S, HOUR_S),
    }


def estimates(jobs: pd.DataFrame, progress=iter) -> pd.DataFrame:
    rows, questions = asked(jobs)
    return prequential_estimates(rows, {"all": questions["all"]}, DAY_S, 0, progress)["all"]


def told_before(jobs: pd.DataFrame, moment: float) -> dict[str, pd.DataFrame]:
    """All that either layer tells before a moment."""
    rows, questions = asked(jobs)
    found = prequential_estimates(rows, questions, DAY_S, 0)
    return {
        name: answers[questions[name.split("/")[0]].asked_time < moment]
        for name, answers in found.items()
    }


def assert_same_before(jobs: pd.DataFrame, others: pd.DataFrame, moment: float) -> None:
    """Values, bounds, and whether a row is inside, by both layers and by the baselines."""
    told, again = told_before(jobs, moment), told_before(others, moment)
    assert {name: len(rows) > 9 for name, rows in told.items()} == dict.fromkeys(again, True)
    for name, rows in told.items():
        pd.testing.assert_frame_equal(rows, again[name], check_exact=True)
    for as_of in ("submit_time", "start_time"):
        known = [baseline_estimates(log, jobs[as_of].to_numpy()) for log in (jobs, others)]
        before = jobs[as_of] < moment
        pd.testing.assert_frame_equal(known[0][before], known[1][before], check_exact=True)


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
    assert_same_before(jobs, changed, moment)


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
    assert_same_before(jobs, permuted, moment)


def test_progress_sees_one_moment_a_fit(finished_jobs):
    seen = []
    jobs = finished_jobs(60, span_s=3 * DAY_S)
    estimates(jobs, lambda moments: seen.extend(moments) or moments)
    assert len(seen) == 3
    assert np.allclose(np.diff(seen), DAY_S)
