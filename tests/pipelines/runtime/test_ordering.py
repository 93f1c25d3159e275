import numpy as np
import pandas as pd
import pytest

from pipelines.runtime.ordering import oracle_gain


@pytest.fixture
def jobs(finished_jobs):
    return finished_jobs(300, span_s=86_400.0).assign(gpus=1.0)


def test_true_runtimes_reach_the_whole_gain(jobs):
    jobs = jobs.assign(user=jobs["job_id"])  # no two of one batch
    assert oracle_gain(jobs, jobs["runtime_s"].to_numpy()) == pytest.approx(1, abs=0.01)


def test_a_worse_prediction_gains_less(jobs):
    runtime_s = jobs["runtime_s"].to_numpy()
    noise = np.random.default_rng(0).lognormal(0, 3, len(jobs))
    gains = [oracle_gain(jobs, values) for values in (runtime_s * noise, 1 / runtime_s)]
    assert 1 > gains[0] > gains[1]


def test_jobs_without_gpus_hold_no_card(jobs):
    assert oracle_gain(jobs.assign(gpus=0.0), np.ones(len(jobs))) is None


def test_jobs_that_arrive_at_once_make_no_load(jobs):
    assert oracle_gain(jobs.assign(submit_time=0.0), np.ones(len(jobs))) is None


def test_attempts_of_one_job_are_told_apart(jobs):
    again = jobs.assign(job_id="same", attempt=np.arange(len(jobs), dtype=float))
    told = jobs["runtime_s"].to_numpy()
    assert oracle_gain(again, told) == oracle_gain(jobs, told)


def test_the_order_of_rows_is_irrelevant(jobs):
    told = pd.Series(jobs["runtime_s"].to_numpy() ** 0.5, index=jobs.index)
    mixed = jobs.sample(frac=1, random_state=1)
    assert oracle_gain(mixed, told[mixed.index].to_numpy()) == oracle_gain(jobs, told.to_numpy())
