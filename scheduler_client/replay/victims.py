"""Whom to evict so that a job can start: the cheapest set that really lets it."""

from collections.abc import Iterator
from dataclasses import dataclass

from scheduler_client.policy.service_levels import LevelRules
from scheduler_client.replay.cards import NOBODY
from scheduler_client.replay.holdings import Holdings
from scheduler_client.replay.pair_beliefs import Mates
from scheduler_client.replay.simulation import Simulation

ALONE = -1


@dataclass(frozen=True, slots=True)
class VictimRules:
    """Who may be evicted, beside what `LevelRules` says.

    Attributes
    ----------
    most : int
        Evictions of one job.
    growth : float
        By so much of itself the cost of an eviction grows with each that a job had.
    fresh_s : float
        For so long the costs of all running jobs are used again.
    """

    most: int = 50
    growth: float = 0.1
    fresh_s: float = 60.0


@dataclass(frozen=True, slots=True, order=True)
class Victim:
    """A running job with what its eviction costs (GPU seconds, growing with every one)."""

    cost: float
    job: int
    started_s: float
    level: int


class Victims:
    """Running jobs that may be evicted, by whom they leave on their card.

    None of a queue that its nominal quota alone would do for, whenever the job started.

    Parameters
    ----------
    simulation : Simulation
    running : dict of int to None
        Jobs on cards; kept up to date by the policy.
    holdings : Holdings
    rules : VictimRules
    levels : LevelRules
    """

    def __init__(
        self,
        simulation: Simulation,
        running: dict[int, None],
        holdings: Holdings,
        rules: VictimRules,
        levels: LevelRules,
    ) -> None:
        self._simulation, self._running, self._holdings = simulation, running, holdings
        self._rules, self._levels = rules, levels
        self._as_of_s = float("-inf")
        self._by_mate: dict[int, list[Victim]] = {}
        self._gangs: list[Victim] = []

    def chosen(self, gpus: int, level: int, wanted: int, mates: Mates) -> list[int] | None:
        """Return jobs whose eviction lets a gang start beside those who stay, or None.

        Parameters
        ----------
        gpus : int
            Size of the gang.
        level : int
            Of the job that wants to start: only those above it are evicted.
        wanted : int
            Cards that all pending jobs of no higher level ask for: a gang of no more gives way
            to one job where no single card does, as the others will take what it leaves.
        mates : mapping of int to Mate
            Whom it may join.
        """
        if level >= len(self._levels.levels_gpu_s):
            return None
        if self._simulation.now - self._as_of_s >= self._rules.fresh_s:
            self._refresh()
        short, victims = gpus - len(self._simulation.cards.empty), []
        for victim, freed in self._usable(gpus, level, wanted, mates):
            victims.append(victim)
            short -= freed
            if short <= 0:
                return victims
        return None

    def _usable(
        self, gpus: int, level: int, wanted: int, mates: Mates
    ) -> Iterator[tuple[int, int]]:
        """Yield victims and how many cards each makes fit, the cheapest first in each group."""
        taken: set[int] = set()
        if gpus > 1:
            yield from self._usable_gangs(gpus, level, mates)
        groups = [key for key in self._by_mate if key == ALONE or key in mates]
        found = [victim for key in groups for victim in self._head(self._by_mate[key], level, gpus)]
        for cheapest in sorted(found):
            card = self._simulation.on[cheapest.job][0]
            if card not in taken:  # two victims on one card free it once
                taken.add(card)
                yield cheapest.job, 1
        if gpus == 1:
            yield from self._usable_gangs(wanted, level, mates)

    def _usable_gangs(self, most: int, level: int, mates: Mates) -> Iterator[tuple[int, int]]:
        for victim in self._still(self._gangs, level):
            on = self._simulation.on[victim]
            freed = sum(self._fits_beside(card, victim, mates) for card in on)
            if freed and len(on) <= most:
                yield victim, freed

    def _head(self, victims: list[Victim], level: int, count: int) -> list[Victim]:
        """Return the first `count` that still run and are above `level`; drop who does not."""
        head: list[Victim] = []
        while len(head) < count and len(head) < len(victims):
            victim = victims[len(head)]
            if not self._runs(victim):
                del victims[len(head)]
            elif victim.level <= level:
                break
            else:
                head.append(victim)
        return head

    def _still(self, victims: list[Victim], level: int) -> Iterator[int]:
        return (v.job for v in victims if v.level > level and self._runs(v))

    def _runs(self, victim: Victim) -> bool:
        job = victim.job
        return job in self._running and self._simulation.started_s[job] == victim.started_s

    def _fits_beside(self, card: int, victim: int, mates: Mates) -> bool:
        kind = self._kind_beside(card, victim)
        return kind == ALONE or kind in mates

    def _kind_beside(self, card: int, victim: int) -> int | None:
        """Return the kind of who stays on a card: ALONE for nobody, None for a gang."""
        other = self._simulation.cards.neighbour(card, victim)
        if other == NOBODY:
            return ALONE
        return self._simulation.kind[other] if self._simulation.gpus[other] == 1 else None

    def _refresh(self) -> None:
        simulation = self._simulation
        self._as_of_s = simulation.now
        self._by_mate, self._gangs = {}, []
        since_s = simulation.now - self._levels.least_run_s
        spared = self._holdings.all_within(simulation.now)
        for job in self._running:
            if simulation.started_s[job] > since_s or simulation.queue[job] in spared:
                continue
            level = self._levels.level(simulation.attained_s(job) * simulation.gpus[job])
            if level == 0 or simulation.evictions[job] >= self._rules.most:
                continue
            victim = Victim(self._cost(job), job, simulation.started_s[job], level)
            if simulation.gpus[job] > 1:
                self._gangs.append(victim)
            elif (kind := self._kind_beside(simulation.on[job][0], job)) is not None:
                self._by_mate.setdefault(kind, []).append(victim)
        for group in (self._gangs, *self._by_mate.values()):
            group.sort(key=lambda victim: (-victim.level, victim.cost))

    def _cost(self, job: int) -> float:
        simulation = self._simulation
        lost_s = simulation.unsaved_s(job) + simulation.site.costs.restart_s
        grown = 1 + self._rules.growth * simulation.evictions[job]
        return lost_s * simulation.gpus[job] * grown
