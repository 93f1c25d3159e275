from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from data.domain import JobRequest
from features.history import RuntimeHistory
from features.requests import requests_frame
from pipelines.runtime.training import train_runtime
from serving.champions.files import check_examples
from serving.inference.bundle import spec_from_json, spec_json
from serving.inference.runtime import LIMIT_ENFORCED, runtime_estimates, user_weight
from serving.inference.widening import WIDENING_TABLE


@pytest.fixture(scope="module")
def jobs(finished_jobs):
    return finished_jobs(600)


@pytest.fixture(scope="module")
def models(jobs):
    return train_runtime(jobs, seed=0)[:2]


@pytest.fixture(scope="module")
def rows(jobs):
    history = RuntimeHistory()
    history.observe(jobs)
    return history.transform(jobs.tail(100))


def test_bounds_enclose_the_value_and_nothing_is_below_zero(models, rows):
    estimates = runtime_estimates(*models, rows, np.zeros(len(rows)))
    assert (estimates["lower"] > 0).all()
    assert (estimates["lower"] <= estimates["value"]).all()
    assert (estimates["value"] <= estimates["upper"]).all()
    assert estimates.index.equals(rows.index)


@pytest.mark.parametrize("elapsed_s", [1.0, 100.0, 1e4, 1e8])
def test_a_running_job_is_never_told_less_than_it_has_run(models, rows, elapsed_s):
    estimates = runtime_estimates(*models, rows, np.full(len(rows), elapsed_s))
    assert (estimates[["lower", "value", "upper"]] >= elapsed_s).all(axis=None)
    assert (estimates["lower"] <= estimates["value"]).all()


def test_one_row_equals_the_batch_and_order_is_irrelevant(models, rows):
    elapsed = np.linspace(0, 500, len(rows))
    whole = runtime_estimates(*models, rows, elapsed)
    pd.testing.assert_frame_equal(
        runtime_estimates(*models, rows.iloc[[7]], elapsed[[7]]), whole.iloc[[7]]
    )
    backwards = runtime_estimates(*models, rows[::-1], elapsed[::-1])
    pd.testing.assert_frame_equal(backwards[::-1], whole)


def test_source_says_what_answered(models, rows, jobs):
    cluster, user = models
    zeros = np.zeros(len(rows))
    assert runtime_estimates(cluster, user, rows, zeros)["source"].eq("user_model").all()
    assert runtime_estimates(cluster, None, rows, zeros)["source"].eq("cluster_model").all()
    assert runtime_estimates(None, user, rows, zeros)["source"].eq("cold_start").all()
    history = RuntimeHistory()
    history.observe(jobs)
    stranger = requests_frame([JobRequest("1", "zoe", "vision", "key-0", 2e9)])
    row = history.transform(stranger)
    assert runtime_estimates(cluster, user, row, np.zeros(1))["source"].item() == "cluster_model"
    unlike = requests_frame([JobRequest("1", "zoe", "new queue", "new key", 2e9)])
    row = history.transform(unlike)
    assert runtime_estimates(cluster, user, row, np.zeros(1))["source"].item() == "cold_start"


def test_without_a_model_the_limit_is_the_guide_and_the_interval_wide():
    request = requests_frame([JobRequest("1", "zoe", "q", "k", 0.0, limit_s=500.0)])
    answer = runtime_estimates(None, None, RuntimeHistory().transform(request), np.zeros(1))
    assert answer["value"].item() == pytest.approx(100)
    assert answer["upper"].item() >= 10 * answer["value"].item()
    assert not answer["in_domain"].item()


def test_a_request_unlike_any_other_is_outside_and_answered_wider(models, jobs):
    history = RuntimeHistory()
    history.observe(jobs)
    usual = JobRequest("1", "ada", "vision", "key-0", 1.61e9, gpus=1, cpus=4)
    huge = replace(usual, gpus=512)
    rows = history.transform(requests_frame([usual, huge]))
    answers = runtime_estimates(*models, rows, np.zeros(2))
    assert answers["in_domain"].tolist() == [True, False]
    widths = np.log(answers["upper"] / answers["lower"])
    assert widths.iloc[1] > widths.iloc[0]


def test_an_enforced_limit_bounds_the_estimate(models, rows):
    cluster, user = models
    limit_log = pd.Series(np.log(20.0), index=rows.index)
    spec = replace(user.spec, facts={**user.spec.facts, LIMIT_ENFORCED: "yes"})
    estimates = runtime_estimates(
        cluster, replace(user, spec=spec), rows.assign(limit_log=limit_log), np.zeros(len(rows))
    )
    assert (estimates["upper"] <= 20 * 1.02 + 1e-9).all()


def test_users_correction_grows_with_their_history(models):
    rows = pd.DataFrame({"user_jobs": np.log1p([0.0, 4.0, 400.0]), "user_started": 0.0})
    weights = user_weight(models[1].spec, rows)
    assert weights[0] == 0
    assert weights[1] == pytest.approx(0.5)
    assert weights[2] > 0.98


def test_interval_of_a_waiting_job_holds_what_its_user_has_seen(models, rows):
    cluster, user = models
    wide = rows.assign(user_low=rows["user_low"] - 9.0, user_high=rows["user_high"] + 9.0)
    plain, told = (runtime_estimates(cluster, user, part, np.zeros(100)) for part in (rows, wide))
    assert (told["lower"] < plain["lower"]).all()
    assert (told["upper"] > plain["upper"]).all()
    running = runtime_estimates(cluster, user, wide, np.full(100, 1.0))
    assert (running["upper"] < told["upper"]).all()


def test_running_jobs_of_the_user_count_as_history(models):
    rows = pd.DataFrame({"user_jobs": [0.0], "user_started": [4.0]})
    assert user_weight(models[1].spec, rows)[0] == pytest.approx(0.5)


def test_without_history_the_cluster_model_answers_alone(models, jobs):
    cluster, user = models
    history = RuntimeHistory()
    history.observe(jobs)
    stranger = requests_frame([JobRequest("1", "zoe", "vision", "key-0", 2e9)])
    rows = history.transform(stranger)
    alone, both = (runtime_estimates(cluster, layer, rows, np.zeros(1)) for layer in (None, user))
    assert both["value"].iloc[0] == pytest.approx(alone["value"].iloc[0])


def test_bundles_replay_their_examples_and_their_spec_survives_json(models):
    for bundle in models:
        check_examples(bundle, bundle.version)
        assert spec_from_json(spec_json(bundle.spec)) == bundle.spec


def test_intervals_of_a_user_that_kept_missing_them_are_wider_and_answers_the_same(models, rows):
    cluster, user = models
    codes = rows["user_code"].unique()
    factors = pd.DataFrame({"user_code": codes[:1], "factor": [2.0]})
    none, some = (
        replace(user, tables={**user.tables, WIDENING_TABLE: table})
        for table in (factors.iloc[:0], factors)
    )
    elapsed_s = np.zeros(len(rows))
    plain, wider = (runtime_estimates(cluster, each, rows, elapsed_s) for each in (none, some))
    mine = rows["user_code"].eq(codes[0])
    assert (wider["upper"] / wider["lower"] > plain["upper"] / plain["lower"])[mine].any()
    pd.testing.assert_frame_equal(plain[~mine], wider[~mine])
    pd.testing.assert_series_equal(plain["value"], wider["value"])
