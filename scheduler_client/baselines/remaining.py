"""Least remaining GPU time first, with perfect durations and preemption: what knowing buys."""

from scheduler_client.replay.simulation import Simulation

EVERY_S = 60.0
"""So often at most the running jobs are chosen anew; a preemption is paid for."""

STICKINESS = 0.7
"""A running job counts as having so much of its remaining GPU time left, against ping-pong."""


class LeastRemaining:
    """One pool, nothing shared: those run that have least GPU time left, others are evicted.

    Perfect durations, as no scheduler has them. It shows how much of the JCT of any policy comes
    from not knowing them, rather than from what it does.

    Notes
    -----
    Shortest remaining processing time: Schrage, "A proof of the optimality of the shortest
    remaining processing time discipline", Operations Research 1968; here by GPU time, since gangs
    hold several cards.
    """

    name = "srpt_oracle"

    def begin(self, simulation: Simulation) -> None:
        """Get ready for a replay."""
        self._simulation = simulation
        self._runtime_s: list[float] = simulation.trace.runtime_s.tolist()
        self._active: dict[int, None] = {}
        self._pending = 0
        self._next_s = 0.0

    def submitted(self, job: int) -> None:
        """Take in a job that has arrived."""
        self._active[job] = None
        self._pending += 1

    def finished(self, job: int) -> None:
        """Take note that a job has left its cards."""
        del self._active[job]

    def schedule(self) -> None:
        """Let those with least GPU time left have the cards; not more often than `EVERY_S`."""
        simulation = self._simulation
        if not self._pending or simulation.now < self._next_s:
            return
        self._next_s = simulation.now + EVERY_S
        simulation.wake(self._next_s)
        chosen = self._chosen()
        for job in list(self._active):
            if simulation.on[job] and job not in chosen:
                simulation.evict(job, "more GPU time left than others")
                self._pending += 1
        for job in chosen:
            if not simulation.on[job]:
                simulation.start(job, simulation.cards.take_empty(simulation.gpus[job]), "alone")
                self._pending -= 1

    def _chosen(self) -> dict[int, None]:
        """Return the jobs that fit the pool, least remaining GPU time first."""
        left, chosen = self._simulation.cards.count, dict[int, None]()
        for job in sorted(self._active, key=self._remaining):
            gpus = self._simulation.gpus[job]
            if gpus <= left:
                left -= gpus
                chosen[job] = None
            if not left:
                break
        return chosen

    def _remaining(self, job: int) -> float:
        simulation = self._simulation
        left_s = self._runtime_s[job] - simulation.attained_s(job)
        stays = STICKINESS if simulation.on[job] else 1.0
        return stays * left_s * simulation.gpus[job]
