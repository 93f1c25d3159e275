"""One machine, the whole path: real jobs, the scheduler's page, a real Prometheus, the job log."""

import sys
import threading
import time

import pytest
from click.testing import CliRunner

from data.joblog import JobLog
from data.joblog_signals import SignalTable
from data.prometheus.config import TelemetryConfig
from data.prometheus.job_signals import Sharing, job_signals
from data.prometheus.source import PrometheusSource
from data.settings import Settings
from pipelines.commands import telemetry
from scheduler_client.config import SchedulerConfig
from scheduler_client.jobs.spool import Spool
from scheduler_client.jobs.submission import Submission
from scheduler_client.local.card_metrics import CardPage
from scheduler_client.run import RunRules
from scheduler_client.start import Start, run_local
from scheduler_client.status import status_server
from tests.ports import free_port
from tests.prometheus import prometheus

pytestmark = pytest.mark.slow

WORK = """
import os, time
memory = b"x" * ({mib} * 2**20)
end = time.monotonic() + {seconds}
while time.monotonic() < end:
    pause = time.process_time() + {busy} * 0.05
    while time.process_time() < pause: pass
    time.sleep((1 - {busy}) * 0.05)
"""
CONFIG = TelemetryConfig(delay_s=2.0, longest_gap_s=2.0, slack_s=4.0, settle_s=0.0)


def submission(key, **work) -> Submission:
    command = (sys.executable, "-I", "-c", WORK.format(**work))
    return Submission("ada", "ada", key, command, gpu_mem_mib=100)


def scraped(source) -> None:
    """Wait for the first attempt to scrape: Prometheus looks for its targets only once in 5 s."""
    deadline = time.monotonic() + 30
    while not source.samples("up", time.time() - 60, time.time()):
        assert time.monotonic() < deadline, "nothing was scraped"
        time.sleep(0.1)


@pytest.fixture(scope="module")
def installation(tmp_path_factory):
    """Settings after two jobs have shared a slot until the shorter one left, and its Prometheus."""
    home = tmp_path_factory.mktemp("telemetry")
    settings = Settings.from_mapping({"COLOCAST_HOME": str(home)}, home)
    port, page = free_port(), CardPage()
    with prometheus({"scheduler": port}) as url, PrometheusSource(url) as source:
        spool = Spool(settings.spool_path)
        spool.submit(submission("long", mib=80, seconds=10, busy=0.3))
        spool.submit(submission("short", mib=10, seconds=2, busy=0.5))
        rules = RunRules(cycle_s=0.05, until_empty=True, deliver_s=0.0)
        start = Start(
            settings, SchedulerConfig(), "fifo_shared", rules, f"http://127.0.0.1:{free_port()}",
            slots=1, device="cpu", page=page,
        )  # fmt: skip
        with status_server(port, page.text) as observe:
            scraped(source)
            run_local(start, threading.Event(), observe)
        with JobLog(settings.joblog_url) as log:
            log.append([attempt.finished for attempt in spool.attempts()])
        spool.close()
        yield settings, url, source


@pytest.fixture(scope="module")
def jobs(installation):
    with JobLog(installation[0].joblog_url) as log:
        return {job.job_key: job for _, job in log.since(0)}


def test_prometheus_gives_back_what_the_sampler_measured(installation, jobs):
    job = jobs["long"]
    assert [s.neighbour_keys for s in job.segments] == [("short",), ()] or len(job.segments) == 3
    own = job_signals(job, installation[2], CONFIG)[0]
    assert own.sharing is Sharing.EXCLUSIVE
    assert own.samples >= 8
    for name, within in (("gpu_util_mean", 0.1), ("sm_active_mean", 0.1)):
        assert own.signals[name] == pytest.approx(job.signals[name], abs=within)
    for name in ("gpu_mem_mib_mean", "gpu_mem_peak_mib"):
        assert own.signals[name] == pytest.approx(job.signals[name], rel=0.1)
    assert 80 < own.signals["gpu_mem_peak_mib"] < 130
    assert "dram_active_mean" not in own.signals


def test_a_job_that_was_never_alone_has_none(installation, jobs):
    own = job_signals(jobs["short"], installation[2], CONFIG)[0]
    assert own.signals == {}


def test_the_command_keeps_them_and_shows_profiles(installation, tmp_path, monkeypatch):
    settings, url, _ = installation
    config = tmp_path / "telemetry.yaml"
    config.write_text("{delay_s: 2, longest_gap_s: 2, slack_s: 4, settle_s: 0}\n")
    monkeypatch.setenv("COLOCAST_HOME", str(settings.home))

    def called(*words):
        runner = CliRunner()
        return runner.invoke(telemetry.command, [*words], catch_exceptions=False)

    options = ("--url", url, "--config", str(config))
    assert called("pull", *options).output.startswith("1 jobs measured")
    assert called("pull", *options).output.startswith("0 jobs measured")
    assert "jobs are looked up again" in called("pull", "--again", *options).output
    with SignalTable(settings.joblog_url) as table:
        assert len([one for one in table.all() if one.signals]) >= 1
    shown = called("profiles", "--json", str(tmp_path / "profiles.json")).output
    assert "long" in shown
    assert '"sharing":"exclusive"' in (tmp_path / "profiles.json").read_text()
    checked = called("check", *options)
    assert checked.output.splitlines()[0].startswith("gpu_util")
