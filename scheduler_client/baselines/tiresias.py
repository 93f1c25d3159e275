"""Tiresias: two queues by attained service, with preemption that is paid for."""

from bisect import bisect_left, insort
from heapq import heapify, heappop, heappush

from scheduler_client.replay.simulation import Simulation

THRESHOLD_GPU_S = 3_250.0
"""GPU time after which a job falls to the second queue, as in the artifact of Tiresias."""

Key = tuple[int, float, int]


class Tiresias:
    """Discretised least attained service over one pool, nothing shared, no prediction.

    A job starts in the first queue and falls to the second once its GPU time passes the
    threshold. Within a queue, who started first goes first. A pending job takes the cards of
    running jobs that come after it, the last ones first; what they lose is lost.

    Parameters
    ----------
    threshold_gpu_s : float
        GPU seconds, > 0.

    Notes
    -----
    Gu et al., "Tiresias: A GPU Cluster Manager for Distributed Deep Learning", NSDI 2019
    (Discretized 2D-LAS, two queues). Placement by skew is left out: the pool has no nodes.
    """

    name = "tiresias"

    def __init__(self, threshold_gpu_s: float = THRESHOLD_GPU_S) -> None:
        self._threshold_gpu_s = threshold_gpu_s

    def begin(self, simulation: Simulation) -> None:
        """Get ready for a replay."""
        self._simulation = simulation
        self._pending: dict[int, list[Key]] = {}  # by gang size, heaps
        self._running: list[Key] = []  # in order of precedence
        self._key: dict[int, Key] = {}
        self._demotions: list[tuple[float, int]] = []

    def submitted(self, job: int) -> None:
        """Take in a job that has arrived."""
        self._wait((0, self._simulation.now, job))

    def finished(self, job: int) -> None:
        """Take note that a job has left its cards."""
        self._stop(job)
        del self._key[job]

    def schedule(self) -> None:
        """Demote who has had enough, then let the first pending jobs run that can."""
        self._demote()
        while (key := self._first()) is not None:
            gpus = self._simulation.gpus[key[2]]
            for victim in self._victims(key, gpus):
                self._evict(victim)
            heap = self._pending[gpus]
            heap.remove(key)
            heapify(heap)
            self._start(key)

    def _first(self) -> Key | None:
        """Return the pending job that goes first, of those that can run."""
        heads = sorted((heap[0], gpus) for gpus, heap in self._pending.items() if heap)
        return next((key for key, gpus in heads if self._fits(key, gpus)), None)

    def _fits(self, key: Key, gpus: int) -> bool:
        short = gpus - len(self._simulation.cards.empty)
        return short <= 0 or sum(self._sizes(self._victims(key, gpus))) >= short

    def _victims(self, key: Key, gpus: int) -> list[Key]:
        """Return running jobs behind `key`, the last first, until `gpus` cards are free."""
        short, victims = gpus - len(self._simulation.cards.empty), []
        for other in reversed(self._running):
            if short <= 0 or other[:2] <= key[:2]:
                break
            victims.append(other)
            short -= self._simulation.gpus[other[2]]
        return victims

    def _sizes(self, keys: list[Key]) -> list[int]:
        return [self._simulation.gpus[key[2]] for key in keys]

    def _wait(self, key: Key) -> None:
        self._key[key[2]] = key
        heappush(self._pending.setdefault(self._simulation.gpus[key[2]], []), key)

    def _start(self, key: Key) -> None:
        simulation, (level, _, job) = self._simulation, key
        simulation.start(job, simulation.cards.take_empty(simulation.gpus[job]), "alone")
        key = (level, simulation.first_start_s[job], job)
        self._key[job] = key
        insort(self._running, key)
        if level == 0:
            left_s = self._threshold_gpu_s / simulation.gpus[job] - simulation.attained_s(job)
            at_s = simulation.now + max(0.0, left_s)
            heappush(self._demotions, (at_s, job))
            simulation.wake(at_s)

    def _evict(self, key: Key) -> None:
        self._stop(key[2])
        self._simulation.evict(key[2], "behind in attained service")
        self._wait(key)

    def _stop(self, job: int) -> None:
        del self._running[bisect_left(self._running, self._key[job])]

    def _demote(self) -> None:
        simulation = self._simulation
        while self._demotions and self._demotions[0][0] <= simulation.now:
            _, job = heappop(self._demotions)
            enough_s = self._threshold_gpu_s / simulation.gpus[job] - 1e-6
            runs_first = simulation.on[job] and self._key[job][0] == 0
            if runs_first and simulation.attained_s(job) >= enough_s:
                self._stop(job)
                self._key[job] = (1, simulation.first_start_s[job], job)
                insort(self._running, self._key[job])
