"""The real service is killed while the real loop runs jobs: nothing is lost, and it is said."""

import os
import signal
import socket
from contextlib import closing
from dataclasses import replace

import pytest

from data.domain import Outcome
from data.settings import Settings
from pipelines.demo.jobs import demo_jobs
from pipelines.demo.passes import finished, submitted
from pipelines.demo.whole_loop import sample_demo
from pipelines.services import parts as up
from pipelines.services.processes import ServiceGroup
from scheduler_client.jobs.spool import Spool

JOBS = 16
LOOKS_DOWN = 25  # of 0.2 s each


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture
def installation(tmp_path) -> Settings:
    names = ("MLFLOW", "SERVICE", "SCHEDULER")
    ports = {f"COLOCAST_{name}_PORT": str(free_port()) for name in names}
    return Settings.from_mapping({"COLOCAST_HOME": str(tmp_path / "home"), **ports}, tmp_path)


class KillOnce:
    """Kills the service when some jobs are logged; it stays down for a number of looks."""

    def __init__(self, group: ServiceGroup) -> None:
        self.group, self.logged, self.looks_down = group, 0, 0

    def advance(self, count: int) -> None:
        self.logged += count

    def keep_up(self) -> None:
        if self.logged < 3:
            return
        if self.looks_down == 0:
            os.killpg(self.group.processes["service"].pid, signal.SIGKILL)
            self.group.processes["service"].wait()
        self.looks_down += 1
        # Long enough that the loop must do without the service, not merely retry.
        if self.looks_down > LOOKS_DOWN:
            self.group.keep_up()


@pytest.mark.chaos
def test_service_killed_while_jobs_run_costs_no_job(installation):
    demo = sample_demo(installation, os.environ, None)
    jobs = [replace(job, offset_s=0.0) for job in demo_jobs(list(demo.workloads), 3, JOBS)]
    with ServiceGroup(installation.home / "logs") as group:
        up.start_trained(group, installation, os.environ, always=True)
        up.start(group, up.scheduler(installation, os.environ, demo.plan))
        chaos = KillOnce(group)
        with closing(Spool(installation.spool_path)) as spool:
            ids = submitted(jobs, demo.workloads, spool)
            logged = finished(ids, JOBS, installation.joblog_url, chaos.advance, chaos.keep_up)
        log = group.log_path("scheduler").read_text()
    assert group.restarts == {"service": 1}
    assert len({job.job_id for job in logged}) == JOBS
    assert [job.outcome for job in logged] == [Outcome.OK] * JOBS
    assert log.index('"event": "degraded"') < log.index('"event": "recovered"')
