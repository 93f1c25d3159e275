"""The live loop: collect, view, predict, decide, apply, report; over and over, whatever fails."""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from data.domain import FinishedJob, Outcome
from data.errors import ClusterError
from scheduler_client.clearing import Clearing
from scheduler_client.clusters import Cluster, EndedRun
from scheduler_client.config import SchedulerConfig, queues_now
from scheduler_client.events import log_event, log_fault
from scheduler_client.forecast.degrade import Forecaster
from scheduler_client.forecast.remembered import Remembered
from scheduler_client.jobs.delivery import Delivery
from scheduler_client.jobs.finishing import RESUBMITTED, finished_job, lost_run, memory_overshoot
from scheduler_client.jobs.job_forms import (
    eviction_fields,
    launch,
    pending_job,
    started_fields,
)
from scheduler_client.jobs.placement_note import Joined, PlacementNote, placement_note, read_note
from scheduler_client.jobs.spool import JobState, Spool, SpooledJob
from scheduler_client.jobs.started_job import StartedJob
from scheduler_client.policy.decisions import Admission, Decision, Level
from scheduler_client.policy.policies import Policy
from scheduler_client.policy.predictions import NO_FORECAST, Predictions
from scheduler_client.policy.usage import held_gpus
from scheduler_client.policy.view import CardState, ClusterView, RunningJob

KILL_S = 10.0
"""After SIGKILL, how long to wait for what the kernel still holds."""
REPORT_S = 2.0
"""The most of a cycle that goes into reporting finished jobs."""


@dataclass(frozen=True, slots=True)
class LoopParts:
    """Everything that a loop works with; each part can be replaced by a fake."""

    spool: Spool
    cluster: Cluster
    policy: Policy
    forecaster: Forecaster
    delivery: Delivery
    remembered: Remembered
    config: SchedulerConfig


@dataclass(frozen=True, slots=True)
class _Seen:
    """A view, and the jobs of the spool behind it."""

    view: ClusterView
    pending: tuple[SpooledJob, ...]


@dataclass(frozen=True, slots=True)
class Cycle:
    """What one cycle saw and did.

    Attributes
    ----------
    running : int
        Jobs on cards at its end.
    ended : tuple of FinishedJob
        Attempts that were written down at its beginning.
    cards : tuple of CardState
        As it left them.
    level : Level
        At which it was predicted.
    predictions : mapping of str to JobForecast
        What it was decided by.
    """

    view: ClusterView
    decision: Decision
    running: int = 0
    ended: tuple[FinishedJob, ...] = ()
    cards: tuple[CardState, ...] = ()
    level: Level = Level.NONE
    predictions: Predictions = field(default_factory=dict)


class SchedulerLoop:
    """Schedules the jobs of one spool onto one cluster.

    An outage of the endpoint, of the job log or of the disk is logged and bridged; only `stop`
    ends the loop. Every step is durable before the next: killed anywhere, the next loop on the
    same spool goes on from there.
    """

    def __init__(self, parts: LoopParts) -> None:
        self._parts = parts
        self._running: dict[str, StartedJob] = {}
        self._unrecorded: list[EndedRun] = []
        self._clearing = Clearing(parts.spool)

    @property
    def running(self) -> tuple[str, ...]:
        """Ids of the jobs that run, or have ended and are not written down yet."""
        return tuple(self._running)

    def recover(self) -> tuple[FinishedJob, ...]:
        """Write down the attempts that were lost with a scheduler that died, and resubmit them.

        Their processes died with it. Such an attempt counts as ``node_fail``, ended when that
        scheduler was last seen alive.
        """
        last_seen_time = self._parts.remembered.last_seen_time
        lost = []
        for job in self._parts.spool.jobs(JobState.RUNNING):
            note = read_note(job.placement)
            lost.append(self._record(job, lost_run(job, last_seen_time), note))
        return tuple(lost)

    def cycle(self) -> Cycle:
        """Go once through everything.

        Raises
        ------
        ColocastError
            If the spool or the outbox cannot be read or written now. Nothing is lost: ends that
            could not be written down are kept for the next cycle.
        """
        parts = self._parts
        ended = self.collect()
        seen, predictions = self._predicted(self._seen(time.time()))
        view = seen.view
        decision = parts.policy.decide(view, predictions)
        self._apply(decision, predictions, seen)
        self._evict(decision, view.now)
        cards = parts.cluster.cards()
        parts.remembered.holds(held_gpus(cards, self._running_jobs()))
        parts.delivery.put()
        parts.delivery.send(REPORT_S)
        parts.remembered.keep(view.now)
        level = parts.forecaster.level if parts.policy.asks else Level.NONE
        return Cycle(view, decision, len(self._running), ended, cards, level, predictions)

    def collect(self) -> tuple[FinishedJob, ...]:
        """Write down the runs that have ended."""
        self._unrecorded += self._parts.cluster.poll()
        ended = []
        while self._unrecorded:
            run = self._unrecorded[0]
            started = self._running[run.job_id]
            ended.append(self._record(started.job, run, started.note))
            del self._running[run.job_id]
            del self._unrecorded[0]
        return tuple(ended)

    def end_all(self, outcome: Outcome, grace_s: float) -> None:
        """End all jobs that this loop started, and write them down.

        Raises
        ------
        ColocastError
            As `cycle`.
        """
        self._parts.cluster.stop(list(self._running), outcome, grace_s)
        deadline_s = time.monotonic() + grace_s + KILL_S
        while self._running and time.monotonic() < deadline_s:
            self.collect()
            time.sleep(0.02)
        if self._running:
            log_fault("unstoppable", job_ids=list(self._running))
        self._parts.delivery.put()

    def _seen(self, now: float) -> "_Seen":
        parts = self._parts
        pending = parts.spool.jobs(JobState.PENDING)
        running = self._running_jobs()
        cards = parts.cluster.cards()
        names = [job.submission.queue for job in pending] + [job.queue for job in running]
        view = ClusterView(
            now=now,
            cards=cards,
            pending=tuple(pending_job(job) for job in pending),
            running=running,
            queues=queues_now(parts.config, names, len(cards)),
            reservations=self._clearing.reservations,
            evictions=self._clearing.evictions(
                {job.job_id for job in pending} | {job.job_id for job in running}
            ),
        )
        return _Seen(parts.remembered.with_history(view), pending)

    def _running_jobs(self) -> tuple[RunningJob, ...]:
        saved = self._parts.cluster.saved_times()
        return tuple(
            started.as_running(saved.get(job_id)) for job_id, started in self._running.items()
        )

    def _evict(self, decision: Decision, now: float) -> None:
        """Tell victims to end; `collect` finds them ended, and they wait for another attempt."""
        self._clearing.observe(decision, now)
        for eviction in decision.evictions:
            for victim in eviction.victims:
                self._running[victim].is_stopping = True
            log_event("evicted", **eviction_fields(eviction))
            grace_s = self._parts.config.settings.grace_s
            self._parts.cluster.stop(eviction.victims, Outcome.PREEMPTED, grace_s)

    def _predicted(self, seen: "_Seen") -> tuple["_Seen", Predictions]:
        """Return what is predicted of pending jobs, and the view with what is of running ones."""
        policy, forecaster = self._parts.policy, self._parts.forecaster
        if not policy.asks:
            return seen, {}
        predictions = forecaster.forecast(seen.view, policy.max_jobs_per_card)
        repredicted = forecaster.repredicted(seen.view)
        for job_id, runtime in repredicted.items():
            self._running[job_id].runtime = runtime
        if repredicted:
            view = replace(seen.view, running=self._running_jobs())
            seen = replace(seen, view=view)
        return seen, predictions

    def _apply(self, decision: Decision, predictions: Predictions, seen: "_Seen") -> None:
        if not decision.admissions:
            return
        parts, jobs, now = self._parts, {job.job_id: job for job in seen.pending}, time.time()
        keys = _neighbour_keys(decision.admissions, seen.view.cards, jobs)
        starting = []
        for admission in decision.admissions:
            job = replace(jobs[admission.job_id], start_time=now)
            forecast = predictions.get(job.job_id, NO_FORECAST)
            beside = tuple(keys[job_id] for job_id, _ in admission.neighbours)
            note = placement_note(admission, parts.policy.name, forecast.runtime, beside)
            starting.append((admission, StartedJob(job, note)))
        parts.spool.start_all([started.starting for _, started in starting])
        self._running |= {started.job.job_id: started for _, started in starting}
        began = [(admission, s.job) for admission, s in starting if self._start(s)]
        self._tell_neighbours(began)

    def _start(self, started: StartedJob) -> bool:
        job = started.job
        try:
            self._parts.cluster.start(launch(job, started.note))
        except ClusterError as error:
            log_fault("start_failed", job_id=job.job_id, attempt=job.attempt, error=str(error))
            self._unrecorded.append(lost_run(job, job.start_time or time.time()))
            return False
        log_event("started", **started_fields(job, started.note))
        return True

    def _tell_neighbours(self, began: Sequence[tuple[Admission, SpooledJob]]) -> None:
        told: dict[str, StartedJob] = {}
        for admission, job in began:
            for job_id, estimate in admission.neighbours:
                started = self._running.get(job_id)
                if started is not None:
                    slowdown = None if estimate is None else estimate.value
                    joined = Joined(time.time(), job.submission.job_key, slowdown)
                    started.note = started.note.with_joined(joined)
                    told[job_id] = started
        if told:
            notes = {job_id: started.note.to_json() for job_id, started in told.items()}
            self._parts.spool.replace_placements(notes)

    def _record(self, job: SpooledJob, run: EndedRun, note: PlacementNote | None) -> FinishedJob:
        parts = self._parts
        finished = finished_job(job, run, note)
        resubmit = self._is_resubmitted(finished)
        parts.spool.end(finished, resubmit=resubmit)
        parts.remembered.learn(finished)
        log_event(
            "ended",
            job_id=finished.job_id,
            attempt=finished.attempt,
            outcome=finished.outcome,
            runtime_s=round(finished.runtime_s, 3),
            resubmitted=resubmit,
        )
        over = memory_overshoot(finished, () if note is None else note.mem_mib)
        if over:
            log_fault("memory_overshoot", job_id=finished.job_id, attempt=finished.attempt, **over)
        return finished

    def _is_resubmitted(self, finished: FinishedJob) -> bool:
        if finished.outcome is not Outcome.NODE_FAIL:
            return finished.outcome in RESUBMITTED
        lost_before = self._parts.spool.attempts_with(finished.job_id, Outcome.NODE_FAIL)
        return lost_before + 1 < self._parts.config.settings.max_attempts


def _neighbour_keys(
    admissions: Iterable[Admission], cards: Iterable[CardState], jobs: Mapping[str, SpooledJob]
) -> dict[str, str]:
    """Return the job keys of all neighbours, those of nobody's and of this cycle too."""
    touched = {card_id for admission in admissions for card_id in admission.card_ids}
    residents = (r for card in cards if card.card_id in touched for r in card.residents)
    keys = {resident.job_id: resident.job_key for resident in residents}
    return keys | {job_id: job.submission.job_key for job_id, job in jobs.items()}
