"""Whom to evict so that a queue gets its nominal quota: jobs of queues that have borrowed."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from scheduler_client.replay.pair_beliefs import Mates
from scheduler_client.replay.simulation import Simulation


@dataclass(frozen=True, slots=True)
class ReclaimRules:
    """When borrowed cards are taken back.

    Attributes
    ----------
    grace_s : float
        A borrower runs at least so long, unless it started while the queue waited already: else
        ever new borrowers could keep a gang waiting.
    every_s : float
        So often a queue that waits for its nominal quota is looked at again.
    """

    grace_s: float = 300.0
    every_s: float = 60.0


class Reclaiming:
    """Finds running jobs of borrowing queues, the cheapest first.

    Parameters
    ----------
    simulation : Simulation
    running : dict of int to None
        Jobs on cards; kept up to date by the policy.
    borrows : callable
        Whether a queue holds more than its nominal quota.
    rules : ReclaimRules
    """

    def __init__(
        self,
        simulation: Simulation,
        running: dict[int, None],
        borrows: Callable[[int], bool],
        rules: ReclaimRules,
    ) -> None:
        self._simulation, self._running = simulation, running
        self._borrows, self._rules = borrows, rules

    def chosen(self, gpus: int, mates: Mates, claimed_s: float) -> list[int] | None:
        """Return jobs whose eviction lets a gang start, or None if no set does.

        Parameters
        ----------
        gpus : int
            Size of the gang.
        mates : mapping of int to Mate
            Whom it may join, also on a card that a victim leaves.
        claimed_s : float
            Since when its queue waits for its nominal quota.
        """
        victims: set[int] = set()
        cards = set(self._simulation.cards.empty)
        if len(cards) >= gpus:
            return []
        for job in sorted(self._candidates(claimed_s), key=lambda job: (self._cost(job), job)):
            victims.add(job)
            cards |= self._freed(self._simulation.on[job], victims, mates)
            if len(cards) >= gpus:
                return [victim for victim in sorted(victims) if self._helps(victim, cards)]
        return None

    def _candidates(self, claimed_s: float) -> Iterable[int]:
        simulation = self._simulation
        since_s = simulation.now - self._rules.grace_s
        for job in self._running:
            has_grace = since_s < simulation.started_s[job] <= claimed_s
            if not has_grace and self._borrows(simulation.queue[job]):
                yield job

    def _freed(self, cards: Iterable[int], victims: set[int], mates: Mates) -> set[int]:
        """Return those of a victim's cards on which nobody is left, or a mate."""
        simulation, freed = self._simulation, set[int]()
        for card in cards:
            stay = [job for job in simulation.cards.residents(card) if job not in victims]
            joins = len(stay) == 1 and simulation.gpus[stay[0]] == 1
            if not stay or (joins and simulation.kind[stay[0]] in mates):
                freed.add(card)
        return freed

    def _helps(self, victim: int, cards: set[int]) -> bool:
        return any(card in cards for card in self._simulation.on[victim])

    def _cost(self, job: int) -> float:
        """Return the seconds that an eviction loses: gangs free more cards for as much."""
        simulation = self._simulation
        return simulation.unsaved_s(job) + simulation.site.costs.restart_s
