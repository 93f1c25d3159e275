"""Shortest first with backfill: by perfect durations, and by the group's mean (QSSF)."""

from collections.abc import Callable

from scheduler_client.baselines.pending import BySize
from scheduler_client.replay.simulation import Simulation
from scheduler_client.replay.trace import Trace


class ShortestFirst:
    """One pool, nothing shared; of all pending jobs that fit, the one with the least key.

    Parameters
    ----------
    name : str
    keys : callable
        Gives the source of keys for a replay; see `Oracle` and `GroupMeans`.
    """

    def __init__(self, name: str, keys: "Callable[[Trace], Oracle | GroupMeans]") -> None:
        self.name, self._make_keys = name, keys

    def begin(self, simulation: Simulation) -> None:
        """Get ready for a replay."""
        self._simulation = simulation
        self._keys = self._make_keys(simulation.trace)
        self._pending: BySize[float] = BySize()

    def submitted(self, job: int) -> None:
        """Take in a job that has arrived; its key is fixed now."""
        self._pending.push(self._keys.key(job), job, self._simulation.gpus[job])

    def finished(self, job: int) -> None:
        """Take note that a job has left its cards; its duration is known from now on."""
        self._keys.observe(job)

    def schedule(self) -> None:
        """Start whatever fits, shortest first; a gang that does not fit is passed."""
        cards = self._simulation.cards
        while cards.empty and (job := self._pending.pop(len(cards.empty))) is not None:
            self._simulation.start(job, cards.take_empty(self._simulation.gpus[job]), "alone")


class Oracle:
    """Perfect durations, as no scheduler has them: shortest job first (SJF).

    Notes
    -----
    Ordered by runtime, not by GPU time; without reservation, so that large gangs wait for a
    quiet hour.
    """

    def __init__(self, trace: Trace) -> None:
        self._runtime_s: list[float] = trace.runtime_s.tolist()

    def key(self, job: int) -> float:
        """Return the runtime."""
        return self._runtime_s[job]

    def observe(self, job: int) -> None:
        """Nothing is to be learnt."""


class GroupMeans:
    """GPUs times the mean runtime of finished jobs of the same queue and gang size.

    Where the group has none yet, its queue's mean counts, then that of all jobs.

    Notes
    -----
    Quasi-shortest-service-first: Hu et al., "Characterization and Prediction of Deep Learning
    Workloads in Large-Scale GPU Datacenters" (Helios), SC 2021. Helios also matches job names,
    which public traces lack; group means alone recover nearly all of the oracle's gain on PAI.
    """

    def __init__(self, trace: Trace) -> None:
        self._runtime_s: list[float] = trace.runtime_s.tolist()
        self._gpus: list[int] = trace.gpus.tolist()
        self._queue: list[int] = trace.queue.tolist()
        self._sums: dict[tuple[int, int], tuple[float, int]] = {}

    def key(self, job: int) -> float:
        """Return the predicted GPU time (GPU seconds)."""
        return self.runtime_s(job) * self._gpus[job]

    def runtime_s(self, job: int) -> float:
        """Return the predicted runtime (s); 1 before any job has finished."""
        for group in self._groups(job):
            total, count = self._sums.get(group, (0.0, 0))
            if count:
                return total / count
        return 1.0

    def observe(self, job: int) -> None:
        """Learn the runtime of a finished job."""
        for group in self._groups(job):
            total, count = self._sums.get(group, (0.0, 0))
            self._sums[group] = (total + self._runtime_s[job], count + 1)

    def _groups(self, job: int) -> tuple[tuple[int, int], ...]:
        queue = self._queue[job]
        return (queue, self._gpus[job]), (queue, -1), (-1, -1)


def sjf_oracle() -> ShortestFirst:
    """Return shortest-job-first with perfect durations."""
    return ShortestFirst("sjf_oracle", Oracle)


def qssf() -> ShortestFirst:
    """Return quasi-shortest-service-first with group means."""
    return ShortestFirst("qssf", GroupMeans)
