"""The real service is killed while the real loop runs jobs: nothing is lost, and it is said."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from data.domain import Outcome
from data.joblog import JobLog
from data.settings import Settings
from pipelines.demo.jobs import demo_jobs
from pipelines.demo.passes import GIVE_UP_S, submission
from pipelines.demo.whole_loop import sample_demo
from pipelines.services import parts as up
from pipelines.services.processes import ServiceGroup
from scheduler_client.jobs.spool import Spool
from scheduler_client.jobs.submission import Submission
from tests.ports import free_port

MOST_JOBS = 200
STEP_S = 1.0


@pytest.fixture
def installation(tmp_path) -> Settings:
    names = ("MLFLOW", "SERVICE", "SCHEDULER")
    ports = {f"COLOCAST_{name}_PORT": str(free_port()) for name in names}
    return Settings.from_mapping({"COLOCAST_HOME": str(tmp_path / "home"), **ports}, tmp_path)


class Submitter:
    """Submits one sample job after the other, until the scheduler's log says something."""

    def __init__(self, jobs: Iterator[Submission], spool: Spool, log_path: Path) -> None:
        self.jobs, self.spool, self.log_path = jobs, spool, log_path
        self.job_ids: list[str] = []

    def submit_until(self, words: str) -> None:
        while words not in self.log_path.read_text():
            assert len(self.job_ids) < MOST_JOBS, f"the scheduler never said {words}"
            self.job_ids.append(self.spool.submit(next(self.jobs)))
            time.sleep(STEP_S)


def wait_for_count(log: JobLog, jobs: int) -> None:
    deadline = time.monotonic() + GIVE_UP_S
    while log.count() < jobs:
        assert time.monotonic() < deadline, f"{log.count()} of {jobs} jobs are in the log"
        time.sleep(STEP_S)


@pytest.mark.chaos
def test_service_killed_while_jobs_run_costs_no_job(installation):
    demo = sample_demo(installation, os.environ, None)
    jobs = demo_jobs(list(demo.workloads), 3, MOST_JOBS)
    submissions = (submission(job, demo.workloads[job.job_key]) for job in jobs)
    with ServiceGroup(installation.home / "logs") as group:
        up.start_trained(group, installation, os.environ, always=True)
        up.start(group, up.scheduler(installation, os.environ, demo.plan))
        with closing(Spool(installation.spool_path)) as spool:
            submitter = Submitter(submissions, spool, group.log_path("scheduler"))
            submitter.submit_until('"event": "ended"')
            os.killpg(group.processes["service"].pid, signal.SIGKILL)
            group.processes["service"].wait()
            submitter.submit_until('"event": "degraded"')
            assert group.keep_up() == ["service"]
            submitter.submit_until('"event": "recovered"')
        with closing(JobLog(installation.joblog_url)) as log:
            wait_for_count(log, len(submitter.job_ids))
            logged = [job for _, job in log.since(0)]
    assert group.restarts == {"service": 1}
    assert sorted(job.job_id for job in logged) == sorted(submitter.job_ids)
    assert {job.outcome for job in logged} == {Outcome.OK}
