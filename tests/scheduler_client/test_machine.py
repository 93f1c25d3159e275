"""The whole loop through random arrivals, ends, failures and outages, with invariants after each.

A few runs in `make test`, always the same; thousands in `make test-properties`.
"""

import os
import shutil
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from data.domain import Estimate, Outcome, Placement, Source
from data.errors import ClusterError, PredictionInvalidError, PredictionUnavailableError
from scheduler_client.config import PredictionSettings, SchedulerConfig, SchedulerSettings
from scheduler_client.forecast.degrade import Forecaster
from scheduler_client.forecast.remembered import Remembered
from scheduler_client.jobs.delivery import Delivery
from scheduler_client.jobs.outbox import Outbox
from scheduler_client.jobs.placement_note import read_note
from scheduler_client.jobs.spool import JobState, Spool
from scheduler_client.jobs.submission import Submission
from scheduler_client.loop import LoopParts, SchedulerLoop
from scheduler_client.memory_cluster import InMemoryCluster
from scheduler_client.policy.eviction_cost import EvictionRules
from scheduler_client.policy.policies import policy_named
from scheduler_client.policy.reserving import ReservationRules
from scheduler_client.policy.service_levels import LevelRules
from scheduler_client.policy.view import CardState, Queue, Whom
from tests.scheduler_client.test_loop import JobLogFake

CARDS = 5  # an odd number, and more than the nominal quotas
KEYS = ("bert", "gan", "dlrm")
MOST_EVICTIONS = 2
QUEUES = (
    Queue("a", 2, "all", reclaims=Whom.ANY),
    Queue("b", 2, "all", reclaims=Whom.ANY, preempts=Whom.LOWER_PRIORITY),
    Queue(
        "c",
        0,
        "all",
        borrowing_limit_gpus=4,
        preempts=Whom.LOWER_PRIORITY,
        borrows=Whom.LOWER_PRIORITY,
    ),
)
EPOCH = 1_000_000.0
THOROUGH = os.environ.get("COLOCAST_EXAMPLES")


class MoodyPredictor:
    """Answers as the service does, or is down, or answers nonsense."""

    mood = "well"

    def placements(self, job, cards, within_s=None):
        self._moody()
        return tuple(
            Placement(
                card.card_id,
                self._slow(job.job_key, len(card.residents)),
                tuple(self._slow(r.job_key, 1) for r in card.residents),
                Estimate(900.0, 800.0, 1000.0, "m/1", Source.MODEL),
                fits=True,
                cost=0.1,
            )
            for card in cards
        )

    def runtimes(self, jobs, running=(), within_s=None):
        self._moody()
        lasted = [max(60.0, 1.2 * job.elapsed_s) for job in jobs]
        return tuple(Estimate(s, s / 2, 2 * s, "m/1", Source.CLUSTER_MODEL) for s in lasted)

    def _moody(self) -> None:
        if self.mood == "down":
            raise PredictionUnavailableError("connection refused")
        if self.mood == "nonsense":
            raise PredictionInvalidError("found nonsense, wanted JSON")

    def _slow(self, key: str, others: int) -> Estimate:
        value = 1 + others * 0.1 * (1 + KEYS.index(key))
        return Estimate(value, 1.0, value + 0.1, "m/1", Source.MODEL)


class FlakyCluster(InMemoryCluster):
    """Refuses a start now and then."""

    refusals = 0

    def start(self, launch):
        if self.refusals:
            self.refusals -= 1
            raise ClusterError("no process can be started")
        return super().start(launch)


class LoopMachine(RuleBasedStateMachine):
    order = "fair"

    def __init__(self) -> None:
        super().__init__()
        # Nothing may depend on the clock, or on chance: what fails must fail again.
        numbers = count()
        clock = SimpleNamespace(
            time=lambda: EPOCH + self.cluster.now, monotonic=time.monotonic, sleep=time.sleep
        )
        self.patches = ExitStack()
        self.patches.enter_context(mock.patch("scheduler_client.loop.time", clock))
        names = SimpleNamespace(token_hex=lambda _size: f"{next(numbers):08x}")
        self.patches.enter_context(mock.patch("scheduler_client.jobs.spool.secrets", names))
        base = "/dev/shm" if Path("/dev/shm").is_dir() else None
        self.folder = Path(tempfile.mkdtemp(prefix="colocast-machine-", dir=base))
        self.spool = Spool(self.folder / "spool.db")
        self.outbox = Outbox(self.folder / "outbox.db")
        self.log, self.predictor = JobLogFake(), MoodyPredictor()
        self.submitted: dict[str, Submission] = {}
        self.evicted: Counter[str] = Counter()
        self.gave_way: set[tuple[str, str]] = set()
        self.freed: dict[str, str] = {}
        cards = [CardState(f"gpu{n}", "A100", 8192, 8192) for n in range(CARDS)]
        self.cluster = FlakyCluster(
            cards, lambda launch: 50.0, lambda key, others: 1 + 0.1 * len(others)
        )
        self.settings = SchedulerSettings(
            max_attempts=1000,
            prediction=PredictionSettings(1.0, 0.0, 60.0),
            reservation=ReservationRules(after_s=0.0),
            eviction=EvictionRules(most=MOST_EVICTIONS, least_run_s=0.0),
            order=self.order,
            levels=LevelRules((30.0, 120.0), 10.0, reserve_after_s=0.0),
        )
        remembered = Remembered(self.spool, 3600.0, EPOCH)
        self.loop = SchedulerLoop(
            LoopParts(
                spool=self.spool,
                cluster=self.cluster,
                policy=policy_named("colocate", self.settings.rules),
                forecaster=Forecaster(
                    self.predictor, self.settings.prediction, remembered.profiles
                ),
                delivery=Delivery(self.spool, self.outbox, self.log),
                remembered=remembered,
                config=SchedulerConfig(QUEUES, self.settings),
            )
        )

    @rule(
        queue=st.sampled_from(["a", "a", "b", "b", "c"]),
        user=st.sampled_from(["ada", "bob"]),
        key=st.sampled_from(KEYS),
        gpus=st.sampled_from([1, 1, 1, 2, 3]),
        mem_mib=st.sampled_from([None, 1000, 5000, 8192]),
        priority=st.integers(0, 3),
        limit_s=st.sampled_from([None, 500.0]),
    )
    def arrive(self, queue, user, key, gpus, mem_mib, priority, limit_s):
        submission = Submission(
            user,
            queue,
            key,
            ("true",),
            gpus=gpus,
            gpu_mem_mib=mem_mib,
            priority=priority,
            limit_s=limit_s,
        )
        now = EPOCH + self.cluster.now
        self.submitted[self.spool.submit(submission, now)] = submission

    @rule()
    def cycle(self):
        cycle = self.loop.cycle()
        for admission in cycle.decision.admissions:
            for card_id in admission.card_ids:  # what was freed goes to whom it was freed for
                assert self.freed.get(card_id, admission.job_id) == admission.job_id
        started = {admission.job_id for admission in cycle.decision.admissions}
        kept = {c: r.job_id for r in cycle.decision.reservations for c in r.card_ids}
        waiting = {w.job_id for w in cycle.decision.waiting}
        self.freed = {c: job for c, job in kept.items() if job in waiting - started}
        for eviction in cycle.decision.evictions:
            for victim in eviction.victims:
                self.evicted[victim] += 1
                assert (eviction.job_id, victim) not in self.gave_way, "A-B-A"
                self.gave_way.add((victim, eviction.job_id))

    @rule(seconds=st.sampled_from([1.0, 20.0, 60.0]))
    def pass_time(self, seconds):
        self.cluster.advance(self.cluster.now + seconds)

    @rule(mood=st.sampled_from(["well", "down", "nonsense"]))
    def endpoint(self, mood):
        self.predictor.mood = mood

    @rule(count=st.integers(1, 2))
    def starts_fail(self, count):
        self.cluster.refusals = count

    @rule(error=st.sampled_from([None, PredictionUnavailableError("away")]))
    def job_log(self, error):
        self.log.error = error

    @precondition(lambda self: self.loop.running)
    @rule(outcome=st.sampled_from([Outcome.FAILED, Outcome.OOM, Outcome.NODE_FAIL]))
    def a_run_dies(self, outcome):
        alive = [r.job_id for card in self.cluster.cards() for r in card.residents]
        if alive:
            self.cluster.stop([min(alive)], outcome, 0.0)

    @invariant()
    def no_card_is_oversubscribed(self):
        for card in self.cluster.cards():
            assert 0 <= card.free_mem_mib <= card.total_mem_mib
            assert len(card.residents) <= self.settings.max_jobs_per_card

    @invariant()
    def gangs_are_whole(self):
        held = Counter(r.job_id for card in self.cluster.cards() for r in card.residents)
        for job_id, cards in held.items():
            assert cards == self.submitted[job_id].gpus

    @invariant()
    def every_job_is_in_one_place(self):
        running = {job.job_id for job in self.spool.jobs(JobState.RUNNING)}
        pending = {job.job_id for job in self.spool.jobs(JobState.PENDING)}
        assert running == set(self.loop.running)
        assert not running & pending
        residents = {r.job_id for card in self.cluster.cards() for r in card.residents}
        assert residents <= running

    @invariant()
    def nobody_is_evicted_too_often(self):
        assert max(self.evicted.values(), default=0) <= MOST_EVICTIONS

    @invariant()
    def the_limit_on_borrowing_holds_where_cards_are_not_shared(self):
        notes = [read_note(job.placement) for job in self.spool.jobs(JobState.RUNNING)]
        jobs = self.spool.jobs(JobState.RUNNING)
        alone = [
            len(note.card_ids)
            for job, note in zip(jobs, notes, strict=True)
            if job.submission.queue == "c" and not note.joined and not note.neighbour_keys
        ]
        assert sum(alone) <= 4

    def teardown(self):
        """With everything well again, every job starts and ends, and is in the log once."""
        try:
            self.predictor.mood, self.cluster.refusals, self.log.error = "well", 0, None
            for _ in range(40 + 4 * len(self.submitted)):
                self.cycle()
                if not self.spool.unfinished():
                    break
                self.cluster.advance(self.cluster.now + 100.0)
                self.no_card_is_oversubscribed()
                self.gangs_are_whole()
                self.nobody_is_evicted_too_often()
            assert self.spool.unfinished() == 0
            self.cycle()
            last = {job_id for job_id, _ in self.log.jobs}
            assert last == set(self.submitted)
            done = [
                job
                for job in self.log.jobs.values()
                if job.outcome in (Outcome.OK, Outcome.FAILED, Outcome.OOM)
            ]
            assert Counter(job.job_id for job in done) == Counter(list(self.submitted))
        finally:
            self.patches.close()
            self.spool.close()
            self.outbox.close()
            shutil.rmtree(self.folder)


class AttainedMachine(LoopMachine):
    """The same where attained GPU time orders and evicts."""

    order = "attained"


TestLoopMachine, TestAttainedMachine = LoopMachine.TestCase, AttainedMachine.TestCase
TestLoopMachine.settings = TestAttainedMachine.settings = settings(
    max_examples=int(THOROUGH) if THOROUGH else 12,
    stateful_step_count=25,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
