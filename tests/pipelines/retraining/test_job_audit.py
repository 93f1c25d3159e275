import numpy as np
import pytest

from pipelines.retraining.job_audit import audited_jobs


@pytest.fixture
def repeats(finished_jobs):
    jobs = finished_jobs(400).sort_values("finish_time", ignore_index=True)
    rng = np.random.default_rng(0)
    return jobs.assign(runtime_s=(600 * rng.lognormal(0, 0.1, 400)).round(1))


def test_honest_jobs_are_kept(repeats):
    found = audited_jobs(repeats)
    assert found.kept.all()
    assert found.quarantine.empty


def test_a_run_ten_times_as_long_as_its_repeats_is_quarantined_with_the_reason(repeats):
    repeats.loc[[50, 200], "runtime_s"] *= 10
    found = audited_jobs(repeats)
    assert np.flatnonzero(~found.kept).tolist() == [50, 200]
    assert set(found.quarantine["reason"]) == {"unlike_its_repeats"}
    assert "s among runs of" in found.quarantine["evidence"][0]
    assert found.quarantine["job_id"].tolist() == repeats["job_id"][[50, 200]].tolist()


def test_a_job_that_claims_to_have_finished_at_once_is_quarantined(repeats):
    repeats.loc[123, "runtime_s"] = 1.0
    assert np.flatnonzero(~audited_jobs(repeats).kept).tolist() == [123]


def test_a_user_who_halves_his_jobs_from_now_on_is_believed(repeats):
    late = np.arange(400) >= 200
    repeats.loc[late, "runtime_s"] /= 4
    assert (~audited_jobs(repeats).kept).mean() < 0.02


def test_a_job_over_twice_an_enforced_limit_was_not_measured_right(repeats):
    jobs = repeats.assign(limit_s=700.0, job_key=None)
    jobs.loc[7, "runtime_s"] = 5000.0
    found = audited_jobs(jobs)
    assert found.quarantine["evidence"].tolist() == ["5000 s with a limit of 700 s"]
    loose = jobs.assign(limit_s=100.0)  # most run over it: nobody enforces it
    assert audited_jobs(loose).kept.all()


def test_work_that_varies_has_no_usual_time(repeats):
    rng = np.random.default_rng(1)
    jobs = repeats.assign(runtime_s=600 * rng.lognormal(0, 1.5, 400), limit_s=np.nan)
    assert audited_jobs(jobs).kept.mean() > 0.98


def test_no_jobs_are_no_fault(repeats):
    assert audited_jobs(repeats.head(0)).kept.shape == (0,)
