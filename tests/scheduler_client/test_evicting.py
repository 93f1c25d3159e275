"""The loop evicts, keeps the freed cards, and runs the victim again as a new attempt."""

import json
import logging
import time

import pytest

from data.domain import Outcome
from scheduler_client.clearing import Clearing
from scheduler_client.config import PredictionSettings, SchedulerConfig, SchedulerSettings
from scheduler_client.forecast.degrade import Forecaster
from scheduler_client.forecast.remembered import Remembered
from scheduler_client.jobs.delivery import Delivery
from scheduler_client.jobs.outbox import Outbox
from scheduler_client.jobs.spool import JobState, Spool
from scheduler_client.jobs.submission import Submission
from scheduler_client.loop import LoopParts, SchedulerLoop
from scheduler_client.memory_cluster import InMemoryCluster
from scheduler_client.policy.decisions import Decision, Eviction, Ground
from scheduler_client.policy.policies import policy_named
from scheduler_client.policy.view import PastEviction, Queue, Reservation, Whom
from tests.scheduler_client.test_loop import JobLogFake, Silent

QUEUES = (
    Queue("lender", 1, "all", reclaims=Whom.ANY),
    Queue("borrower", 1, "all"),
)


class Site:
    """Two cards, a lender that reclaims and a borrower."""

    def __init__(self, folder, a_card) -> None:
        self.log = JobLogFake()
        self.spool, self.outbox = Spool(folder / "spool.db"), Outbox(folder / "outbox.db")
        cards = [a_card("gpu0"), a_card("gpu1")]
        self.cluster = InMemoryCluster(cards, lambda launch: 100.0, lambda key, others: 1.5)
        settings = SchedulerSettings(prediction=PredictionSettings(0.2, 1.0, 60.0))
        remembered = Remembered(self.spool, 3600.0, time.time())
        self.parts = LoopParts(
            spool=self.spool,
            cluster=self.cluster,
            policy=policy_named("colocate", settings.rules),
            forecaster=Forecaster(Silent(), settings.prediction, remembered.profiles),
            delivery=Delivery(self.spool, self.outbox, self.log),
            remembered=remembered,
            config=SchedulerConfig(QUEUES, settings),
        )
        self.loop = SchedulerLoop(self.parts)

    def submit(self, queue: str) -> str:
        return self.spool.submit(
            Submission("ada", queue, queue, ("true",), gpu_mem_mib=8000), time.time()
        )

    def running(self) -> set[str]:
        return {job.job_id for job in self.spool.jobs(JobState.RUNNING)}


@pytest.fixture
def site(tmp_path, a_card, caplog):
    caplog.set_level(logging.INFO, logger="colocast.scheduler")
    site = Site(tmp_path, a_card)
    yield site
    site.spool.close()
    site.outbox.close()


def test_a_lender_gets_its_quota_back_within_two_cycles(site, caplog):
    first, second = site.submit("borrower"), site.submit("borrower")
    site.loop.cycle()
    assert site.running() == {first, second}
    back = site.submit("lender")
    cycle = site.loop.cycle()
    (eviction,) = cycle.decision.evictions
    (victim,) = eviction.victims
    rival = site.submit("borrower")
    cycle = site.loop.cycle()
    assert [(job.job_id, job.outcome) for job in cycle.ended] == [(victim, Outcome.PREEMPTED)]
    assert site.running() == {back, *{first, second} - {victim}}
    waiting = {job.job_id: job.attempt for job in site.spool.jobs(JobState.PENDING)}
    assert waiting == {victim: 2, rival: 1}
    logged = [json.loads(record.getMessage()) for record in caplog.records]
    (event,) = [event for event in logged if event["event"] == "evicted"]
    assert (event["job_id"], event["victims"], event["reason"]) == (back, [victim], "reclaim")


def test_the_job_log_keeps_both_attempts_of_a_victim(site):
    site.submit("borrower"), site.submit("borrower")
    site.loop.cycle()
    site.submit("lender")
    (eviction,) = site.loop.cycle().decision.evictions
    for _ in range(3):
        site.loop.cycle()
        site.cluster.advance(site.cluster.now + 1000.0)
    (victim,) = eviction.victims
    attempts = {a: job.outcome for (job_id, a), job in site.log.jobs.items() if job_id == victim}
    assert attempts == {1: Outcome.PREEMPTED, 2: Outcome.OK}


def test_evictions_are_remembered_until_the_job_has_finished(tmp_path):
    spool = Spool(tmp_path / "spool.db")
    clearing = Clearing(spool)
    kept = Reservation("new", 5.0, ("gpu0",), ("old",))
    eviction = Eviction("new", ("old",), ("gpu0",), 10.0, ground=Ground.RECLAIM)
    clearing.observe(Decision((), (), (eviction,), (kept,)), 5.0)
    assert clearing.reservations == (kept,)
    again = Clearing(spool)
    assert again.reservations == ()
    assert again.evictions({"old"}) == (PastEviction("old", "new", 5.0),)
    assert again.evictions(set()) == again.evictions({"old"}) == ()
    spool.close()


def test_evictions_that_cannot_be_read_are_forgotten(tmp_path, caplog):
    spool = Spool(tmp_path / "spool.db")
    spool.note("evictions", {"surprise": 1})
    assert Clearing(spool).evictions({"old"}) == ()
    assert "evictions_forgotten" in caplog.text
    spool.close()
