"""Time, and the work of running jobs while their neighbours come and go."""

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Protocol

from data.errors import ClusterError, SettingError
from scheduler_client.replay.cards import NOBODY, Cards
from scheduler_client.replay.eventlog import Event, EventLog, Happening
from scheduler_client.replay.trace import Trace
from scheduler_client.replay.truth import GroundTruth

ARRIVAL, FINISH, WAKE = 1, 0, 2  # at one moment, cards are freed before jobs arrive
FOREVER = float("inf")


@dataclass(frozen=True, slots=True)
class Costs:
    """What preemption costs.

    Attributes
    ----------
    checkpoint_s : float
        A job saves its state each time it has done so much work since its start (s, > 0); what
        came after is lost with an eviction.
    restart_s : float
        Added to the work owed with every eviction (s, >= 0). Lucid's artifact charges Tiresias
        62 s.
    """

    checkpoint_s: float = 1800.0
    restart_s: float = 62.0


@dataclass(frozen=True, slots=True)
class Site:
    """The cluster of a replay.

    Attributes
    ----------
    cards : int
        In one pool (>= 1).
    quotas : tuple of int
        Nominal quota of each queue of the trace (cards).
    gpus_per_node : int
        Only names nodes in the event log; a gang may take any cards.
    """

    cards: int
    quotas: tuple[int, ...]
    gpus_per_node: int = 8
    costs: Costs = Costs()


class ReplayPolicy(Protocol):
    """Decides in a replay: told of every arrival and finish, then asked what to start.

    A policy keeps its own pending jobs, so that one event costs it no pass over all of them.
    """

    def begin(self, simulation: "Simulation") -> None:
        """Get ready for a replay; the simulation lives as long as the policy."""
        ...

    def submitted(self, job: int) -> None:
        """Take in a job that has arrived."""
        ...

    def finished(self, job: int) -> None:
        """Take note that a job has done all its work and left its cards."""
        ...

    def schedule(self) -> None:
        """Start (and evict) jobs, by the simulation's `start` and `evict`."""
        ...


class Simulation:
    """A cluster that runs a trace; policies act on it, and read what a scheduler could know.

    Parameters
    ----------
    trace : Trace
    site : Site
    truth : GroundTruth
        What really happens on a shared card. Policies get predictions elsewhere.
    log : EventLog, optional
        Filled where given.

    Attributes
    ----------
    now : float
        Seconds since the first arrival.
    cards : Cards
    gpus, queue, workload : list of int, by job
    kind : list of int, by job
        By what `cards` indexes it; a policy may set that of a pending job.
    arrival_s : list of float, by job
    on : list of tuple of int, by job
        The cards it holds; empty: it does not run.
    started_s, first_start_s, finish_s : list of float, by job
        Of the present or last run, of the first run, of the end; infinity where not yet.
    ran_s : list of float, by job
        Time on cards so far (s); the rest of its JCT a job was pending.
    slowdown_s : list of float, by job
        Time lost beside neighbours so far (s).
    shared_s : list of float, by job
        Time with at least one neighbour so far (s).
    evictions : list of int, by job
    lost_s : float
        GPU time of work done twice and of restarts (GPU seconds).
    useful_s : float
        GPU time until the last arrival (to the end, if all arrive at once) in which cards did
        work that counts: per card and workload, the share of time that the workload keeps a card
        busy, at its speed.
    """

    def __init__(
        self, trace: Trace, site: Site, truth: GroundTruth, log: EventLog | None = None
    ) -> None:
        if len(site.quotas) != len(trace.queues) or site.cards < int(trace.gpus.max()):
            wanted = f"a quota for each of {len(trace.queues)} queues, {trace.gpus.max()} cards"
            raise SettingError(f"site: found {len(site.quotas)} and {site.cards}, wanted {wanted}")
        if int(trace.workload.max()) >= len(truth.names):
            raise SettingError(f"workload must be below {len(truth.names)}")
        self.trace, self.site, self.log = trace, site, log
        self.gpus: list[int] = trace.gpus.tolist()
        self.queue: list[int] = trace.queue.tolist()
        self.workload: list[int] = trace.workload.tolist()
        self.arrival_s: list[float] = trace.arrival_s.tolist()
        self.kind = list(self.workload)
        self.cards = Cards(site.cards, self.kind, self.gpus)
        jobs = len(trace)
        self.now = 0.0
        self.on: list[tuple[int, ...]] = [()] * jobs
        self.started_s, self.first_start_s = [FOREVER] * jobs, [FOREVER] * jobs
        self.finish_s = [FOREVER] * jobs
        self.ran_s, self.slowdown_s, self.shared_s = [0.0] * jobs, [0.0] * jobs, [0.0] * jobs
        self.evictions = [0] * jobs
        self.lost_s = 0.0
        self.useful_s = 0.0
        self._owed_s: list[float] = trace.runtime_s.tolist()
        self._done_s, self._since_s = [0.0] * jobs, [0.0] * jobs
        self._saved_s = [0.0] * jobs
        self._rate, self._is_shared = [1.0] * jobs, [False] * jobs
        self._version = [0] * jobs
        self._truth: list[list[float]] = truth.slowdown.tolist()
        self._busy: list[float] = truth.utilisation.tolist()
        self._window_s = trace.window_s or FOREVER
        self._events: list[tuple[float, int, int, int]] = []

    def run(self, policy: ReplayPolicy) -> None:
        """Replay the whole trace.

        Raises
        ------
        ClusterError
            The policy leaves jobs pending for good, or starts one where it cannot run.
        """
        policy.begin(self)
        arrivals, following, jobs = self.arrival_s, 0, len(self.arrival_s)
        events, versions = self._events, self._version
        while following < jobs or events:
            now = events[0][0] if events else FOREVER
            now = min(now, arrivals[following]) if following < jobs else now
            self.now = now
            while events and events[0][0] <= now:
                _, kind, job, version = heappop(events)
                if kind == FINISH and version == versions[job]:
                    self._finish(job)
                    policy.finished(job)
            while following < jobs and arrivals[following] <= now:
                self._note("submit", following, self._owed_s[following])
                policy.submitted(following)
                following += 1
            policy.schedule()
        never = [self.trace.job_ids[j] for j in range(jobs) if self.finish_s[j] == FOREVER]
        if never:
            raise ClusterError(f"jobs {never[:5]} never ran, wanted all to finish")

    def wake(self, at_s: float) -> None:
        """Ask the policy again at `at_s`, even if nothing happens."""
        heappush(self._events, (at_s, WAKE, 0, 0))

    def start(self, job: int, cards: Sequence[int], reason: str = "") -> None:
        """Start a pending job on cards, all of its gang at once.

        Raises
        ------
        ClusterError
            The job has not arrived, runs, has finished, or gets the wrong number of cards.
        """
        wrong = self.arrival_s[job] > self.now or self.on[job] or self.finish_s[job] != FOREVER
        if wrong or len(set(cards)) != self.gpus[job]:
            found = f"{len(set(cards))} cards at {self.now}"
            raise ClusterError(f"job {job} cannot start: {found}, wanted {self.gpus[job]}")
        shared = self.cards.enter(job, cards)
        self.on[job] = tuple(cards)
        self.started_s[job] = self._since_s[job] = self.now
        self.first_start_s[job] = min(self.first_start_s[job], self.now)
        self._saved_s[job] = self._done_s[job]
        self._set_speed(job, [neighbour for _, neighbour in shared])
        self._note("start", job, self._done_s[job], cards, reason)
        self._retime(shared)

    def evict(self, job: int, reason: str = "") -> None:
        """Stop a running job; it is pending again, and owes what it lost, and a restart.

        Raises
        ------
        ClusterError
            The job does not run.
        """
        if not self.on[job]:
            raise ClusterError(f"job {job} cannot be evicted: it does not run at {self.now}")
        self._advance(job)
        costs = self.site.costs
        redone_s = self.unsaved_s(job) + costs.restart_s
        self.lost_s += redone_s * self.gpus[job]
        self.useful_s -= redone_s * self.gpus[job] * self._busy[self.workload[job]]
        self._done_s[job] -= redone_s  # the restart is work that is done twice as well
        self._note("preempt", job, self._done_s[job], self.on[job], reason)
        self.evictions[job] += 1
        self._leave(job)

    def attained_s(self, job: int) -> float:
        """Return the seconds of work that a job has done by now, as if alone."""
        running = (self.now - self._since_s[job]) / self._rate[job] if self.on[job] else 0.0
        return self._done_s[job] + running

    def unsaved_s(self, job: int) -> float:
        """Return the work that a running job would lose now (s): since its last checkpoint."""
        return (self.attained_s(job) - self._saved_s[job]) % self.site.costs.checkpoint_s

    def slowdown(self, job: int) -> float:
        """Return how slow a running job is now: what a step counter would show."""
        return self._rate[job]

    def _finish(self, job: int) -> None:
        self._advance(job)
        self._done_s[job] = self._owed_s[job]
        self.finish_s[job] = self.now
        self._note("finish", job, self._owed_s[job], self.on[job])
        self._leave(job)

    def _leave(self, job: int) -> None:
        cards, self.on[job] = self.on[job], ()
        self._version[job] += 1
        self._retime(self.cards.leave(job, cards))

    def _retime(self, changed: Sequence[tuple[int, int]]) -> None:
        """Account for jobs whose neighbour on a card has changed, and expect their new end."""
        for job in dict.fromkeys(job for _, job in changed):
            self._advance(job)
            beside = [self.cards.neighbour(card, job) for card in self.on[job]]
            self._set_speed(job, [neighbour for neighbour in beside if neighbour != NOBODY])
            self._note("change", job, self._done_s[job], [c for c, j in changed if j == job])

    def _set_speed(self, job: int, neighbours: Sequence[int]) -> None:
        """Let a job run, from now on, as its slowest card does; expect its end by that."""
        row, workload = self._truth[self.workload[job]], self.workload
        self._rate[job] = max((row[workload[other]] for other in neighbours), default=1.0)
        self._is_shared[job] = bool(neighbours)
        self._version[job] += 1
        left_s = max(0.0, self._owed_s[job] - self._done_s[job]) * self._rate[job]
        heappush(self._events, (self.now + left_s, FINISH, job, self._version[job]))

    def _advance(self, job: int) -> None:
        """Count the work done since the last change; it ran at one speed."""
        since, rate = self._since_s[job], self._rate[job]
        passed = self.now - since
        self._since_s[job] = self.now
        self._done_s[job] += passed / rate
        self.ran_s[job] += passed
        self.slowdown_s[job] += passed - passed / rate
        if self._is_shared[job]:
            self.shared_s[job] += passed
        if since < self._window_s:
            counted = min(self.now, self._window_s) - since
            self.useful_s += counted / rate * self.gpus[job] * self._busy[self.workload[job]]

    def _note(
        self, event: Event, job: int, work_s: float, cards: Sequence[int] = (), reason: str = ""
    ) -> None:
        if self.log is None:
            return
        what = Happening(self.now, event, job, work_s, reason)
        attempt = self.evictions[job] + 1
        if not cards:
            self.log.add(what, attempt, NOBODY, NOBODY, 1.0)
        row = self._truth[self.workload[job]]
        for card in cards:
            neighbour = self.cards.neighbour(card, job)
            slowdown = 1.0 if neighbour == NOBODY else row[self.workload[neighbour]]
            self.log.add(what, attempt, card, neighbour, slowdown)
