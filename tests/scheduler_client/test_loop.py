"""The loop on a cluster in memory, with a service and disks that fail."""

import json
import logging
import threading
import time

import pytest

from data.domain import FinishedJob, Outcome
from data.errors import (
    ClusterError,
    JobLogError,
    PredictionRefusedError,
    PredictionUnavailableError,
    SpoolError,
)
from scheduler_client.config import PredictionSettings, SchedulerConfig, SchedulerSettings
from scheduler_client.forecast.answers import FinishedReceipt
from scheduler_client.forecast.degrade import Forecaster
from scheduler_client.forecast.remembered import Remembered
from scheduler_client.jobs.delivery import Delivery
from scheduler_client.jobs.outbox import Outbox
from scheduler_client.jobs.placement_note import read_note
from scheduler_client.jobs.spool import JobState, Spool
from scheduler_client.jobs.submission import Submission
from scheduler_client.loop import LoopParts, SchedulerLoop
from scheduler_client.memory_cluster import InMemoryCluster
from scheduler_client.policy.decide import PolicyRules
from scheduler_client.policy.decisions import Level
from scheduler_client.policy.policies import policy_named
from scheduler_client.run import RunRules, run

DOWN = PredictionUnavailableError("connection refused")


class Silent:
    """A predictor that is down."""

    def placements(self, job, cards, within_s=None):
        raise DOWN

    def runtimes(self, jobs, running=(), within_s=None):
        raise DOWN


class JobLogFake:
    """Takes finished jobs, unless told otherwise."""

    def __init__(self) -> None:
        self.jobs: dict[tuple[str, int], FinishedJob] = {}
        self.error: Exception | None = None
        self.refuses: set[str] = set()
        self.calls = 0

    def finished(self, jobs, within_s=None):
        self.calls += 1
        if self.error:
            raise self.error
        if any(job.job_id in self.refuses for job in jobs):
            raise PredictionRefusedError("jobs[0].user: found ''", 400)
        new = {(job.job_id, job.attempt): job for job in jobs}
        fresh = len(new.keys() - self.jobs.keys())
        self.jobs |= new
        return FinishedReceipt(fresh, len(jobs) - fresh, len(self.jobs))


class Bench:
    """A loop with all its parts, on files in a folder; `restarted` makes the next one."""

    def __init__(self, folder, a_card, policy="colocate", log=None) -> None:
        self.folder, self.a_card, self.policy = folder, a_card, policy
        self.log = log or JobLogFake()
        self.spool = Spool(folder / "spool.db")
        self.outbox = Outbox(folder / "outbox.db")
        cards = [a_card("gpu0"), a_card("gpu1")]
        self.cluster = InMemoryCluster(cards, lambda launch: 100.0, lambda key, others: 1.5)
        settings = SchedulerSettings(max_attempts=2, prediction=PredictionSettings(0.2, 1.0, 60.0))
        self.config = SchedulerConfig(settings=settings)
        remembered = Remembered(self.spool, 3600.0, time.time())
        self.parts = LoopParts(
            spool=self.spool,
            cluster=self.cluster,
            policy=policy_named(policy, PolicyRules()),
            forecaster=Forecaster(Silent(), settings.prediction, remembered.profiles),
            delivery=Delivery(self.spool, self.outbox, self.log),
            remembered=remembered,
            config=self.config,
        )
        self.loop = SchedulerLoop(self.parts)

    def submit(self, key: str = "bert", **fields) -> str:
        values = {"gpu_mem_mib": 100, **fields}
        return self.spool.submit(Submission("ada", "ada", key, ("true",), **values))

    def finish(self) -> None:
        """Let everything that runs finish."""
        self.cluster.advance(self.cluster.now + 1000.0)

    def restarted(self) -> "Bench":
        self.close()
        return Bench(self.folder, self.a_card, self.policy, self.log)

    def close(self) -> None:
        self.spool.close()
        self.outbox.close()


@pytest.fixture
def bench(tmp_path, a_card, caplog):
    caplog.set_level(logging.INFO, logger="colocast.scheduler")
    bench = Bench(tmp_path, a_card)
    yield bench
    bench.close()


def events(caplog) -> list[str]:
    return [json.loads(record.getMessage())["event"] for record in caplog.records]


def test_a_job_goes_from_pending_to_the_job_log(bench, caplog):
    job_id = bench.submit()
    assert bench.loop.cycle().running == 1
    (running,) = bench.spool.jobs(JobState.RUNNING)
    assert read_note(running.placement).card_ids == ("gpu0",)
    bench.finish()
    cycle = bench.loop.cycle()
    assert [job.job_id for job in cycle.ended] == [job_id]
    assert list(bench.log.jobs) == [(job_id, 1)]
    assert bench.outbox.backlog() == bench.spool.unfinished() == 0
    assert [e for e in events(caplog) if e != "degraded"] == ["started", "ended", "reported"]


def test_a_finished_job_says_what_was_decided(bench):
    bench.submit()
    bench.loop.cycle()
    bench.finish()
    bench.loop.cycle()
    (job,) = bench.log.jobs.values()
    assert job.outcome is Outcome.OK
    assert (job.predicted_slowdown, job.prediction_source) == (1.0, "exclusive")
    assert job.submit_time <= job.start_time <= job.finish_time


def test_jobs_that_share_know_of_each_other(tmp_path, a_card):
    bench = Bench(tmp_path, a_card, policy="fifo_shared")
    ids = [bench.submit(f"key{n}") for n in range(3)]
    assert bench.loop.cycle().level is Level.NONE
    notes = {job.job_id: read_note(job.placement) for job in bench.spool.jobs(JobState.RUNNING)}
    last = notes[ids[2]]
    host = next(n for i, n in notes.items() if i != ids[2] and n.card_ids == last.card_ids)
    assert len(last.neighbour_keys) == 1
    assert [joined.neighbour_key for joined in host.joined] == ["key2"]
    bench.close()


def test_while_the_job_log_is_away_reports_wait_and_are_said_once(bench, caplog):
    bench.log.error = DOWN
    bench.submit()
    bench.loop.cycle()
    bench.finish()
    for _ in range(3):
        bench.loop.cycle()
    assert bench.outbox.backlog() == 1
    bench.log.error = None
    bench.loop.cycle()
    assert bench.outbox.backlog() == 0
    assert len(bench.log.jobs) == 1
    assert events(caplog)[-3:] == ["reports_held_up", "reported", "reports_flow_again"]


def test_one_report_that_is_refused_does_not_hold_up_the_others(bench, caplog):
    bench.log.error = DOWN
    ids = []
    for _ in range(5):
        ids += [bench.submit(), bench.submit()]
        bench.loop.cycle()
        bench.finish()
        bench.loop.cycle()
    bench.log.error, bench.log.refuses = None, {ids[3]}
    bench.loop.cycle()
    assert {job_id for job_id, _ in bench.log.jobs} == set(ids) - {ids[3]}
    assert [job.job_id for job, _ in bench.outbox.refused()] == [ids[3]]
    assert bench.outbox.backlog() == 0
    assert "report_refused" in events(caplog)


def test_a_refusal_that_is_not_about_the_jobs_sets_none_aside(bench):
    bench.log.error = PredictionRefusedError("no such route", 404)
    bench.submit()
    bench.loop.cycle()
    bench.finish()
    bench.loop.cycle()
    assert bench.outbox.backlog() == 1


def test_an_end_that_cannot_be_written_down_is_kept(bench, monkeypatch):
    job_id = bench.submit()
    bench.loop.cycle()
    bench.finish()
    end, fails = bench.spool.end, iter([True, False])

    def failing(*arguments, **options):
        if next(fails):
            raise SpoolError("disk full")
        return end(*arguments, **options)

    monkeypatch.setattr(bench.spool, "end", failing)
    with pytest.raises(SpoolError, match="disk full"):
        bench.loop.cycle()
    assert bench.loop.running == (job_id,)
    assert [job.job_id for job in bench.loop.cycle().ended] == [job_id]
    assert len(bench.log.jobs) == 1


def test_an_outbox_that_fails_loses_nothing(bench, monkeypatch):
    bench.submit()
    bench.loop.cycle()
    bench.finish()
    with monkeypatch.context() as patched:

        def failing(job):
            raise JobLogError("disk full")

        patched.setattr(bench.outbox, "put", failing)
        with pytest.raises(JobLogError, match="disk full"):
            bench.loop.cycle()
    assert bench.spool.attempts_on_their_way() == 1
    bench.loop.cycle()
    assert len(bench.log.jobs) == 1


def test_a_start_that_fails_is_a_lost_attempt_and_tried_again(bench, monkeypatch, caplog):
    job_id = bench.submit()
    with monkeypatch.context() as patched:

        def failing(launch):
            raise ClusterError("no process left")

        patched.setattr(bench.cluster, "start", failing)
        bench.loop.cycle()
    bench.loop.cycle()
    bench.finish()
    bench.loop.cycle()
    outcomes = {key: job.outcome for key, job in bench.log.jobs.items()}
    assert outcomes == {(job_id, 1): Outcome.NODE_FAIL, (job_id, 2): Outcome.OK}
    assert "start_failed" in events(caplog)


def test_a_dead_schedulers_jobs_are_recorded_and_run_again(bench):
    job_id = bench.submit()
    bench.loop.cycle()
    again = bench.restarted()
    (lost,) = again.loop.recover()
    assert (lost.job_id, lost.attempt, lost.outcome) == (job_id, 1, Outcome.NODE_FAIL)
    again.loop.cycle()
    again.finish()
    again.loop.cycle()
    outcomes = {key: job.outcome for key, job in again.log.jobs.items()}
    assert outcomes == {(job_id, 1): Outcome.NODE_FAIL, (job_id, 2): Outcome.OK}
    again.close()


def test_a_job_is_not_run_again_forever(bench):
    bench.submit()
    for _ in range(2):
        bench.loop.cycle()
        bench = bench.restarted()
        bench.loop.recover()
    assert bench.spool.unfinished() == 0
    bench.close()


def test_stopped_jobs_are_preempted_and_wait_for_the_next_start(bench):
    job_id = bench.submit()
    bench.loop.cycle()
    stop = threading.Event()
    stop.set()
    end = run(bench.loop, bench.parts, RunRules(cycle_s=0.01), stop)
    assert (end.is_stopped, end.pending) == (True, 1)
    assert bench.log.jobs[job_id, 1].outcome is Outcome.PREEMPTED
    (job,) = bench.spool.jobs(JobState.PENDING)
    assert (job.job_id, job.attempt) == (job_id, 2)


def test_until_empty_ends_when_all_is_reported(bench):
    bench.submit()
    rules = RunRules(cycle_s=0.001, until_empty=True)
    end = run(bench.loop, bench.parts, rules, threading.Event(), lambda cycle: bench.finish())
    assert end.is_clean
    assert not end.is_stopped
    assert len(bench.log.jobs) == 1


def test_until_empty_says_what_can_never_start(bench, caplog):
    bench.submit(gpus=3)
    rules = RunRules(cycle_s=0.001, until_empty=True)
    end = run(bench.loop, bench.parts, rules, threading.Event())
    assert (end.pending, end.undelivered, end.is_clean) == (1, 0, False)
    assert [waiting.reason for waiting in end.waiting] == ["impossible"]
    assert events(caplog).count("waits") == 1


def test_until_empty_gives_up_reporting_in_the_end(bench):
    bench.log.error = DOWN
    bench.submit()
    rules = RunRules(cycle_s=0.001, until_empty=True, deliver_s=0.05)
    end = run(bench.loop, bench.parts, rules, threading.Event(), lambda cycle: bench.finish())
    assert (end.pending, end.undelivered) == (0, 1)


def test_a_cycle_that_fails_is_tried_again_and_said_once(bench, monkeypatch, caplog):
    bench.submit()
    jobs, failures = bench.spool.jobs, [0]

    def failing(state):
        failures[0] += 1
        if failures[0] < 4:
            raise SpoolError("locked")
        return jobs(state)

    monkeypatch.setattr(bench.spool, "jobs", failing)
    rules = RunRules(cycle_s=0.001, until_empty=True)
    end = run(bench.loop, bench.parts, rules, threading.Event(), lambda cycle: bench.finish())
    assert end.is_clean
    assert events(caplog).count("cycle_failed") == 1
    assert events(caplog).count("cycle_works_again") == 1


def test_usage_history_and_profiles_survive_a_restart(bench, monkeypatch):
    monkeypatch.setattr("scheduler_client.forecast.remembered.KEEP_S", 0.0)
    bench.submit()
    bench.loop.cycle()
    bench.loop.cycle()
    again = bench.restarted()
    again.submit()
    view = again.loop.cycle().view
    assert view.history_gpus["ada", "ada"] > 0
    again.close()
