"""The policies of the live loop in a replay, unchanged: same code, same view, same decisions.

A view is made at every event, as the loop makes one every cycle. That is exact and slow: meant
for hundreds of cards and thousands of jobs, not for whole traces.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from data.domain import Estimate, JobRequest, Resident, Source
from scheduler_client.baselines.shortest import GroupMeans
from scheduler_client.policy.ahead import ahead_by_queue, whole_gpus
from scheduler_client.policy.decisions import ALONE, Eviction, Level
from scheduler_client.policy.policies import Policy
from scheduler_client.policy.predictions import CardClass, Colocation, JobForecast
from scheduler_client.policy.usage import Usage, held_gpus
from scheduler_client.policy.view import (
    CardState,
    ClusterView,
    PastEviction,
    PendingJob,
    Queue,
    Reservation,
    RunningJob,
    Whom,
)
from scheduler_client.replay.simulation import Simulation
from scheduler_client.replay.trace import Floats

GPU_MODEL = "card"
COHORT = "all"
DAY_S = 86_400.0
CYCLE_S = 1.0


@dataclass(frozen=True, slots=True)
class PairForecasts:
    """What is predicted of workloads and their pairs, as the service would answer.

    Attributes
    ----------
    names : tuple of str, length w
    value, upper : array of shape (w, w), float64
        Slowdown (>= 1) of the row's workload beside the column's.
    mem_mib : tuple of int, length w
        GPU memory of each workload (MiB).
    card_mem_mib : int
    """

    names: tuple[str, ...]
    value: Floats
    upper: Floats
    mem_mib: tuple[int, ...]
    card_mem_mib: int

    def forecast(self, workload: int) -> JobForecast:
        """Return what is known of a pending job that is like `workload`."""
        memory = float(self.mem_mib[workload])
        colocations = {
            CardClass(GPU_MODEL, (name,)): Colocation(
                self._estimate(workload, other), (self._estimate(other, workload),)
            )
            for other, name in enumerate(self.names)
        }
        return JobForecast(
            memory={GPU_MODEL: Estimate(memory, memory, memory, "replay", Source.MODEL)},
            colocations={CardClass(GPU_MODEL): Colocation(ALONE)} | colocations,
            level=Level.MODEL,
        )

    def _estimate(self, workload: int, neighbour: int) -> Estimate:
        value, upper = self.value[workload, neighbour], self.upper[workload, neighbour]
        return Estimate(float(value), 1.0, float(max(value, upper)), "replay", Source.MODEL)


class LivePolicy:
    """Drives a policy of ``scheduler_client.policy.policies`` in a replay.

    Queues have their nominal quotas and one cohort, in which they borrow without limit, take back
    what is theirs (``reclaimWithinCohort: Any``), and allow every other eviction. The runtime of
    a job is predicted once, when it arrives, as in all replays: by the mean of its group, with an
    interval that says nothing.

    Parameters
    ----------
    policy : Policy
    forecasts : PairForecasts
    half_life_s : float
        Of the usage history.
    name : str, optional
        By default that of the policy, after ``live_``.
    looks_after_s : tuple of float
        So long after anything was started, evicted or reserved the policy is asked again, as the
        loop asks it every second (s): by what has changed it may find more, and a grace may end.
    """

    def __init__(
        self,
        policy: Policy,
        forecasts: PairForecasts,
        half_life_s: float = DAY_S,
        name: str | None = None,
        looks_after_s: tuple[float, ...] = (CYCLE_S,),
    ) -> None:
        self.name = name or f"live_{policy.name}"
        self._policy, self._forecasts, self._half_life_s = policy, forecasts, half_life_s
        self._looks_after_s = looks_after_s
        self._by_workload = [forecasts.forecast(w) for w in range(len(forecasts.names))]

    def begin(self, simulation: Simulation) -> None:
        """Get ready for a replay."""
        self._simulation, mem_mib = simulation, self._forecasts.card_mem_mib
        self._cards = {
            str(card): CardState(str(card), GPU_MODEL, mem_mib, mem_mib)
            for card in range(simulation.cards.count)
        }
        self._pending: dict[int, PendingJob] = {}
        self._running: dict[int, RunningJob] = {}
        self._runtime: dict[int, Estimate] = {}
        self._means = GroupMeans(simulation.trace)
        self._kept: tuple[Reservation, ...] = ()
        self._past: list[PastEviction] = []
        self._index = {job_id: job for job, job_id in enumerate(simulation.trace.job_ids)}
        self._usage = Usage(0.0)
        self._ahead: dict[str, float] = {}
        names = zip(simulation.trace.queues, simulation.site.quotas, strict=True)
        self._queues = tuple(
            Queue(
                name,
                quota,
                COHORT,
                reclaims=Whom.ANY,
                preempts=Whom.LOWER_PRIORITY,
                borrows=Whom.LOWER_PRIORITY,
            )
            for name, quota in names
        )

    def submitted(self, job: int) -> None:
        """Take in a job that has arrived."""
        self._runtime[job] = _guess(self._means.runtime_s(job))
        self._pending[job] = PendingJob(self._request(job))

    def finished(self, job: int) -> None:
        """Take note that a job has left its cards."""
        self._charge()
        self._leave(job)
        self._means.observe(job)
        job_id = self._simulation.trace.job_ids[job]
        self._past = [eviction for eviction in self._past if eviction.job_id != job_id]
        del self._runtime[job]

    def schedule(self) -> None:
        """Make a view, ask the policy, start what it admits, and evict whom it says."""
        self._charge()
        if not self._pending:
            return
        decision = self._policy.decide(self._view(), self._predictions())
        has_changed = (
            decision.admissions or decision.evictions or self._kept != decision.reservations
        )
        self._kept = decision.reservations
        for admission in decision.admissions:
            self._start(self._index[admission.job_id], admission.card_ids)
        for eviction in decision.evictions:
            self._evict(eviction)
        if decision.evictions:
            self._simulation.wake(self._simulation.now)  # here victims leave at once
        if has_changed and self._pending:
            for after_s in self._looks_after_s:
                self._simulation.wake(self._simulation.now + after_s)

    def _evict(self, eviction: Eviction) -> None:
        simulation = self._simulation
        for victim in eviction.victims:
            job = self._index[victim]
            simulation.evict(job, f"for {eviction.job_id}")
            self._leave(job)
            self._past.append(PastEviction(victim, eviction.job_id, simulation.now))
            attempt = simulation.evictions[job] + 1
            self._pending[job] = PendingJob(
                self._request(job), attempt=attempt, attained_gpu_s=self._attained_gpu_s(job)
            )

    def _leave(self, job: int) -> None:
        job_id, mem_mib = self._simulation.trace.job_ids[job], self._mem_mib(job)
        for card_id in self._running.pop(job).card_ids:
            card = self._cards[card_id]
            left = tuple(r for r in card.residents if r.job_id != job_id)
            freed = card.free_mem_mib + mem_mib
            self._cards[card_id] = replace(card, residents=left, free_mem_mib=freed)

    def _view(self) -> ClusterView:
        return ClusterView(
            now=self._simulation.now,
            cards=tuple(self._cards.values()),
            pending=tuple(self._pending.values()),
            running=tuple(self._saved(job, running) for job, running in self._running.items()),
            queues=self._queues,
            history_gpus=self._usage.gpus(self._half_life_s),
            ahead_gpu_s=self._ahead,
            reservations=self._kept,
            evictions=tuple(self._past),
        )

    def _saved(self, job: int, running: RunningJob) -> RunningJob:
        """Return a running job with when its work was saved last."""
        lost_s = self._simulation.unsaved_s(job) * self._simulation.slowdown(job)
        return replace(running, saved_time=self._simulation.now - lost_s)

    def _predictions(self) -> Mapping[str, JobForecast]:
        simulation = self._simulation
        return {
            simulation.trace.job_ids[job]: replace(
                self._by_workload[simulation.workload[job]], runtime=self._runtime[job]
            )
            for job in self._pending
        }

    def _start(self, job: int, card_ids: tuple[str, ...]) -> None:
        pending = self._pending.pop(job)
        request, attained_gpu_s = pending.job, pending.attained_gpu_s
        for card_id in card_ids:
            resident = Resident(request.job_id, request.job_key)
            card = self._cards[card_id]
            self._cards[card_id] = card.with_resident(resident, self._mem_mib(job))
        self._simulation.start(job, [int(card_id) for card_id in card_ids], self._policy.name)
        self._running[job] = RunningJob(
            request.job_id,
            request.user,
            request.queue,
            request.job_key,
            card_ids,
            self._simulation.now,
            mem_mib=(self._mem_mib(job),) * len(card_ids),
            runtime=self._runtime[job],
            attained_gpu_s=attained_gpu_s,
        )

    def _attained_gpu_s(self, job: int) -> float:
        return self._simulation.attained_s(job) * self._simulation.gpus[job]

    def _charge(self) -> None:
        elapsed_s = self._simulation.now - self._usage.as_of_time
        whole = whole_gpus(self._running.values())
        self._ahead = ahead_by_queue(self._ahead, elapsed_s, whole, self._queues)
        held = held_gpus(self._cards.values(), self._running.values())
        self._usage = self._usage.advanced(self._simulation.now, held, self._half_life_s)

    def _mem_mib(self, job: int) -> int:
        return self._forecasts.mem_mib[self._simulation.workload[job]]

    def _request(self, job: int) -> JobRequest:
        simulation = self._simulation
        queue = simulation.trace.queues[simulation.queue[job]]
        workload = simulation.workload[job]
        return JobRequest(
            job_id=simulation.trace.job_ids[job],
            user=queue,
            queue=queue,
            job_key=self._forecasts.names[workload],
            submit_time=simulation.arrival_s[job],
            gpus=simulation.gpus[job],
            gpu_mem_mib=self._forecasts.mem_mib[workload],
        )


def _guess(seconds: float) -> Estimate:
    return Estimate(seconds, 0.0, seconds, "replay", Source.HEURISTIC, in_domain=False)
