"""What a replay came to, job by job."""

from dataclasses import dataclass

import numpy as np

from scheduler_client.replay.simulation import Simulation
from scheduler_client.replay.trace import Floats, Ints, Trace


@dataclass(frozen=True, slots=True)
class Outcome:
    """One policy on one trace; arrays are by job, in the order of the trace.

    Attributes
    ----------
    trace : Trace
    cards : int
    quotas : tuple of int
        By queue.
    start_s, finish_s : array of shape (n,), float64
        First start and end, seconds since the first arrival.
    ran_s : array of shape (n,), float64
        Time on cards.
    slowdown_s : array of shape (n,), float64
        Of `ran_s`, what neighbours cost.
    shared_s : array of shape (n,), float64
        Of `ran_s`, what was spent beside a neighbour.
    evictions : array of shape (n,), int64
    lost_s : float
        GPU time done twice, and of restarts (GPU seconds).
    useful_s : float
        See `Simulation`.
    """

    trace: Trace
    cards: int
    quotas: tuple[int, ...]
    start_s: Floats
    finish_s: Floats
    ran_s: Floats
    slowdown_s: Floats
    shared_s: Floats
    evictions: Ints
    lost_s: float
    useful_s: float

    @classmethod
    def of(cls, simulation: Simulation) -> "Outcome":
        """Return the outcome of a simulation that has run."""
        return cls(
            trace=simulation.trace,
            cards=simulation.site.cards,
            quotas=simulation.site.quotas,
            start_s=np.array(simulation.first_start_s),
            finish_s=np.array(simulation.finish_s),
            ran_s=np.array(simulation.ran_s),
            slowdown_s=np.array(simulation.slowdown_s),
            shared_s=np.array(simulation.shared_s),
            evictions=np.array(simulation.evictions, np.int64),
            lost_s=simulation.lost_s,
            useful_s=simulation.useful_s,
        )

    @property
    def jct_s(self) -> Floats:
        """Submission to end (s)."""
        return self.finish_s - self.trace.arrival_s

    @property
    def queueing_delay_s(self) -> Floats:
        """All the time that a job was pending (s): before its first start, and after evictions."""
        return np.maximum(0.0, self.jct_s - self.ran_s)

    @property
    def utilisation(self) -> float:
        """Share of the cards' time in which they did work that counts.

        Until the last arrival; to the end where all jobs arrive at once.
        """
        window_s = self.trace.window_s or self.makespan_s
        return self.useful_s / (self.cards * window_s)

    @property
    def makespan_s(self) -> float:
        """First arrival to last end (s)."""
        return float(self.finish_s.max())
