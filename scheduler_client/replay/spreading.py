"""Which shared jobs to move to cards that have become empty, so that nobody slows them."""

from dataclasses import dataclass

from scheduler_client.replay.cards import NOBODY
from scheduler_client.replay.simulation import Simulation


@dataclass(frozen=True, slots=True)
class SpreadRules:
    """When a move pays.

    Attributes
    ----------
    every_s : float
        So often the running jobs are looked through.
    gain : float
        A move must be expected to save its cost so many times over.
    """

    every_s: float = 300.0
    gain: float = 1.0


class Spreading:
    """Finds moves; the policy makes them.

    A move costs the work since the last checkpoint and a restart. What it saves is not known,
    since nobody knows how long a job has left; with heavy tails, a job that has run for so long
    is expected to run for as long again.

    Parameters
    ----------
    simulation : Simulation
    running : dict of int to None
        Jobs on cards; kept up to date by the policy.
    rules : SpreadRules
    """

    def __init__(
        self, simulation: Simulation, running: dict[int, None], rules: SpreadRules
    ) -> None:
        self._simulation, self._running, self._rules = simulation, running, rules
        self._next_s = 0.0

    def moves(self) -> list[int]:
        """Return jobs to move to empty cards now, those that gain most first."""
        simulation = self._simulation
        if not simulation.cards.empty or simulation.now < self._next_s:
            return []
        self._next_s = simulation.now + self._rules.every_s
        gains = [(self._gain(job), job) for job in self._running if simulation.slowdown(job) > 1]
        chosen, free, settled = [], len(simulation.cards.empty), set[int]()
        for gain, job in sorted(gains, reverse=True):
            concerned = {job, *self._beside(job)}
            # One move frees both of a pair.
            if gain > 0 and simulation.gpus[job] <= free and not concerned & settled:
                chosen.append(job)
                settled |= concerned
                free -= simulation.gpus[job]
        return chosen

    def _gain(self, job: int) -> float:
        """Return expected seconds saved, over all jobs concerned, less what a move must earn."""
        simulation = self._simulation
        saved_s = (simulation.slowdown(job) - 1) * simulation.attained_s(job)
        for other in self._beside(job):
            if simulation.gpus[other] == 1:  # a gang has other neighbours left
                saved_s += (simulation.slowdown(other) - 1) * simulation.attained_s(other)
        cost_s = simulation.unsaved_s(job) + simulation.site.costs.restart_s
        return saved_s - self._rules.gain * cost_s

    def _beside(self, job: int) -> set[int]:
        cards = self._simulation.cards
        return {cards.neighbour(card, job) for card in self._simulation.on[job]} - {NOBODY}
