"""Fair share without prediction, as Kueue does it."""

from scheduler_client.baselines.pending import BySize
from scheduler_client.replay.simulation import Simulation


class FairShare:
    """The queue with the lowest share of its nominal quota first; in it, order of arrival.

    Idle quota is borrowed by whoever comes; nothing is taken back, nothing is shared, and a
    gang that does not fit is passed.

    Notes
    -----
    Kueue's ClusterQueue with one cohort, ``BestEffortFIFO``, fair sharing by the dominant share
    over nominal quota, and ``preemption: Never`` (kubernetes-sigs/kueue, concepts).
    """

    name = "fair_share"

    def begin(self, simulation: Simulation) -> None:
        """Get ready for a replay."""
        self._simulation = simulation
        self._held = [0] * len(simulation.site.quotas)
        self._pending: list[BySize[float]] = [BySize() for _ in self._held]

    def submitted(self, job: int) -> None:
        """Take in a job that has arrived."""
        simulation = self._simulation
        pending = self._pending[simulation.queue[job]]
        pending.push(simulation.arrival_s[job], job, simulation.gpus[job])

    def finished(self, job: int) -> None:
        """Take note that a job has left its cards."""
        self._held[self._simulation.queue[job]] -= self._simulation.gpus[job]

    def schedule(self) -> None:
        """Start one job after the other, each time of the queue whose share is lowest."""
        cards = self._simulation.cards
        while cards.empty:
            job = self._next(len(cards.empty))
            if job is None:
                return
            gpus = self._simulation.gpus[job]
            self._held[self._simulation.queue[job]] += gpus
            self._simulation.start(job, cards.take_empty(gpus), "alone")

    def _next(self, free: int) -> int | None:
        quotas = self._simulation.site.quotas
        shares = [held / max(1, quota) for held, quota in zip(self._held, quotas, strict=True)]
        for queue in sorted(range(len(shares)), key=lambda queue: (shares[queue], queue)):
            job = self._pending[queue].pop(free)
            if job is not None:
                return job
        return None
