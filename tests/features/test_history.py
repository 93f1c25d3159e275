import numpy as np
import pandas as pd
import pytest

from features.history import CLUSTER_FEATURES, ROW_COLUMNS, USER_FEATURES, RuntimeHistory
from features.history_groups import history_groups


@pytest.fixture(scope="module")
def jobs(finished_jobs):
    return finished_jobs(400)


def observed(*chunks: pd.DataFrame) -> RuntimeHistory:
    history = RuntimeHistory()
    for chunk in chunks:
        history.observe(chunk)
    return history


def at_submission(history: RuntimeHistory, jobs: pd.DataFrame) -> pd.DataFrame:
    return history.transform(jobs, jobs["submit_time"].to_numpy())


def test_features_follow_their_spec_and_are_numbers(jobs):
    features = at_submission(observed(jobs), jobs)
    assert list(features.columns) == list(ROW_COLUMNS)
    assert USER_FEATURES[: len(CLUSTER_FEATURES)] == CLUSTER_FEATURES
    assert (features.dtypes == np.float64).all()
    assert not np.isinf(features.to_numpy()).any()


def test_one_row_equals_the_batch(jobs):
    history = observed(jobs)
    whole = at_submission(history, jobs)
    rows = [at_submission(history, jobs.iloc[[i]]) for i in (0, 123, 399)]
    pd.testing.assert_frame_equal(pd.concat(rows), whole.iloc[[0, 123, 399]])


def test_row_order_is_irrelevant_and_input_unchanged(jobs):
    before = jobs.copy()
    history = observed(jobs)
    shuffled = at_submission(history, jobs.sample(frac=1, random_state=0))
    pd.testing.assert_frame_equal(shuffled.loc[jobs.index], at_submission(history, jobs))
    pd.testing.assert_frame_equal(jobs, before)


@pytest.mark.parametrize("chunks", [1, 7, 60])
def test_state_is_the_same_in_whichever_chunks_jobs_were_observed(jobs, chunks):
    shuffled = jobs.sample(frac=1, random_state=chunks)
    parts = [shuffled.iloc[at] for at in np.array_split(np.arange(len(jobs)), chunks)]
    pd.testing.assert_frame_equal(
        at_submission(observed(*parts), jobs), at_submission(observed(jobs), jobs)
    )


def test_transform_changes_nothing(jobs):
    history = observed(jobs)
    first = at_submission(history, jobs)
    history.transform(jobs.iloc[:50])
    pd.testing.assert_frame_equal(at_submission(history, jobs), first)
    assert len(history) == len(jobs)


def test_a_running_job_does_not_count_for_itself(jobs):
    history, asked = observed(jobs.iloc[:100]), jobs.iloc[100:101]
    running = asked.assign(elapsed_s=50.0)
    as_of = asked["submit_time"].to_numpy()
    pd.testing.assert_frame_equal(
        history.transform(asked, as_of, running), history.transform(asked, as_of)
    )


@pytest.mark.parametrize("when", [0.2, 0.5, 0.8])
def test_permuting_the_future_changes_no_feature(jobs, when):
    moment = jobs["submit_time"].quantile(when)
    future = jobs["finish_time"] >= moment
    rng = np.random.default_rng(1)
    permuted = jobs.copy()
    permuted.loc[future, "runtime_s"] = rng.permutation(jobs.loc[future, "runtime_s"])
    permuted.loc[future, "finish_time"] = moment + rng.uniform(0, 1e6, future.sum())
    asked = jobs[jobs["submit_time"] <= moment]
    pd.testing.assert_frame_equal(
        at_submission(observed(permuted), asked), at_submission(observed(jobs), asked)
    )


def test_history_up_to_a_moment_equals_the_whole_history_as_of_then(jobs):
    moment = jobs["submit_time"].median()
    known = jobs[jobs["finish_time"] < moment]
    asked = jobs[jobs["submit_time"] > moment]
    as_of = np.full(len(asked), moment)
    runs = jobs["start_time"].lt(moment) & jobs["finish_time"].ge(moment)
    running = jobs[runs].assign(elapsed_s=moment - jobs["start_time"])
    assert len(running) > 0
    pd.testing.assert_frame_equal(
        observed(known).transform(asked, as_of, running), observed(jobs).transform(asked, as_of)
    )


def test_cluster_features_do_not_change_when_users_change_names(jobs):
    renamed = jobs.assign(user=np.random.default_rng(2).permutation(jobs["user"]))
    one, other = (at_submission(observed(frame), frame) for frame in (jobs, renamed))
    names = [*CLUSTER_FEATURES, "anchor_log"]
    pd.testing.assert_frame_equal(one[names], other[names])


def test_without_a_moment_all_observed_jobs_are_seen(jobs):
    features = observed(jobs).transform(jobs.iloc[:1])
    mine = (jobs["user"] == jobs.loc[0, "user"]).sum()
    assert np.expm1(features.loc[0, "user_jobs"]) == pytest.approx(mine)
    assert features["user_age"].iloc[0] >= 0


def test_empty_history_answers_from_the_request_alone(jobs):
    features = RuntimeHistory().transform(jobs)
    assert features["user_mean"].isna().all()
    assert features["anchor_log"].notna().all()
    assert history_groups(features).eq("0").all()


def test_no_rows_give_no_rows(jobs):
    features = observed(jobs).transform(jobs.iloc[:0])
    assert features.shape == (0, len(ROW_COLUMNS))


def test_anchor_comes_near_a_key_that_was_seen_once(jobs):
    first = jobs[jobs["job_key"] == "key-2"].iloc[:1]
    anchor = observed(first).transform(first)["anchor_log"].iloc[0]
    assert abs(anchor - np.log(first["runtime_s"].iloc[0])) < 1.2
