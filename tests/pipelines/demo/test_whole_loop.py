"""The demo's submissions, its wait for the job log, and its wait for the retrainer."""

from contextlib import closing

import pytest

from data.domain import FinishedJob, Outcome
from data.errors import ServiceStartError
from data.joblog import JobLog
from pipelines.demo.jobs import SUBMIT_WITHIN_S, USERS, DemoJob, demo_jobs
from pipelines.demo.passes import finished, log_lines, submission, submitted
from pipelines.demo.whole_loop import _left, sample_demo
from pipelines.profiling.workloads import Workload
from pipelines.retraining.state import KINDS, KindState, RetrainRules, RetrainState
from scheduler_client.jobs.spool import JobState, Spool


def finished_job(job_id: str) -> FinishedJob:
    return FinishedJob(job_id, 1, "ana", "ana", "sort", 1, 0.0, 1.0, 2.0, Outcome.OK)


def test_all_users_submit_and_all_jobs_come_within_the_time():
    jobs = demo_jobs(["a", "b", "c", "d"], seed=7)
    assert {job.user for job in jobs} == set(USERS)
    assert jobs[0].offset_s == 0.0
    assert jobs[-1].offset_s <= SUBMIT_WITHIN_S
    assert [job.offset_s for job in jobs] == sorted(job.offset_s for job in jobs)


def test_each_job_key_is_submitted_about_equally_often():
    keys = [job.job_key for job in demo_jobs(["a", "b", "c"], seed=1, jobs=9)]
    assert {key: keys.count(key) for key in keys} == {"a": 3, "b": 3, "c": 3}


def test_submissions_reach_the_spool_in_order(tmp_path):
    work = {"sort": Workload("sort", "sort", ("true",))}
    with closing(Spool(tmp_path / "spool.db")) as spool:
        ids = list(
            submitted([DemoJob("ana", "sort", 0.0), DemoJob("bo", "sort", 0.01)], work, spool)
        )
        assert [job.job_id for job in spool.jobs(JobState.PENDING)] == ids


def test_submission_carries_command_and_owner():
    handed = submission(DemoJob("bo", "sort", 0.0), Workload("sort", "sort", ("sort", "-n")))
    assert (handed.user, handed.queue, handed.command) == ("bo", "bo", ("sort", "-n"))


def test_only_own_jobs_are_collected_from_the_log(settings):
    def job_ids():
        with JobLog(settings.joblog_url) as log:
            yield "mine"
            log.append([finished_job("another"), finished_job("mine")])

    found = finished(job_ids(), 1, settings.joblog_url, lambda count: None, list)
    assert [job.job_id for job in found] == ["mine"]


def test_services_are_kept_up_while_jobs_run(settings):
    calls = []

    def keep_up():
        calls.append("kept up")
        with JobLog(settings.joblog_url) as log:
            log.append([finished_job("mine")])

    finished(iter(["mine"]), 1, settings.joblog_url, lambda count: None, keep_up)
    assert calls == ["kept up"]


def test_jobs_that_never_come_are_given_up(settings, monkeypatch):
    monkeypatch.setattr("pipelines.demo.passes.GIVE_UP_S", 0.0)
    with pytest.raises(ServiceStartError, match="1 of 1 jobs are not in the job log"):
        finished(iter(["mine"]), 1, settings.joblog_url, lambda count: None, list)


def test_retrainer_that_has_not_read_the_log_has_everything_left():
    assert _left(RetrainState(sequence=3), 4, RetrainRules()) == len(KINDS)


def test_kinds_without_enough_evidence_are_not_waited_for():
    kinds = {
        "interference": KindState(80, 30),
        "runtime": KindState(80, 80),
        "memory": KindState(80, 2),
    }
    assert _left(RetrainState(sequence=80, kinds=kinds), 80, RetrainRules(min_jobs=80)) == 2


def test_log_lines_of_no_log_are_none(tmp_path):
    assert log_lines(tmp_path / "no.log", ["event=kept"]) == []


def test_sample_demo_submits_only_workloads_measured_in_pairs(settings):
    assert all(work.paired for work in sample_demo(settings, {}, None).workloads.values())
