"""Our policy in the replay: share by predicted slowdown, evict who had enough, keep quotas.

It shares as the live policy of the same name (tolerance by pressure, nominal quotas), on an index
of cards instead of a view of all of them, since a replay makes hundreds of thousands of decisions.
Its order is another: least attained GPU time by levels, then shortest predicted; and by these it
evicts.
"""

from dataclasses import dataclass, field
from heapq import heappop, heappush

from scheduler_client.baselines.pending import ByKind
from scheduler_client.baselines.shortest import GroupMeans
from scheduler_client.policy.service_levels import LevelRules
from scheduler_client.policy.tolerance import ToleranceRule, excess, tolerance
from scheduler_client.replay.cards import NOBODY
from scheduler_client.replay.demand import Demand
from scheduler_client.replay.holdings import Holdings
from scheduler_client.replay.mating import joined_cards
from scheduler_client.replay.pair_beliefs import Mates, PairBeliefs, Tolerances, kind_of
from scheduler_client.replay.reclaiming import Reclaiming, ReclaimRules
from scheduler_client.replay.simulation import Simulation
from scheduler_client.replay.spreading import Spreading, SpreadRules
from scheduler_client.replay.truth import Flags, Floats
from scheduler_client.replay.victims import VictimRules, Victims

STEPS = 20
BEYOND = 1e15  # more GPU seconds than any job has: parts the levels of a key


@dataclass(frozen=True, slots=True)
class ColocateRules:
    """What can be tuned.

    Attributes
    ----------
    tolerance : ToleranceRule
        By pressure: the part of all cards that is asked for on top of one job a card.
    levels : LevelRules
    eviction : VictimRules
    reclaim : ReclaimRules
    spread : SpreadRules
    observe_s : float
        After so long beside a neighbour, a job's speed is trusted as a measurement.
    caution : float
        By how much (a share) a slowdown that has yet to be measured is taken to be larger than
        predicted where nobody waits; by less under pressure, by nothing under the most.
    """

    tolerance: ToleranceRule = field(default_factory=ToleranceRule)
    levels: LevelRules = field(default_factory=LevelRules)
    eviction: VictimRules = field(default_factory=VictimRules)
    reclaim: ReclaimRules = field(default_factory=ReclaimRules)
    spread: SpreadRules = field(default_factory=SpreadRules)
    observe_s: float = 300.0
    caution: float = 0.06


class Colocate:
    """See the module.

    Parameters
    ----------
    slowdown : array of shape (w, w), float64
        Predicted slowdown of each workload beside each other.
    fits : array of shape (w, w), bool
        Whether two workloads fit one card's memory.
    learns : bool
        Whether measured speeds of running pairs replace predictions.
    rules : ColocateRules

    Notes
    -----
    Least attained service as the ground for eviction: Gu et al., "Tiresias", NSDI 2019. Shortest
    predicted GPU time first: Hu et al., "Helios", SC 2021.
    """

    name = "colocate"

    def __init__(
        self,
        slowdown: Floats,
        fits: Flags,
        *,
        learns: bool = True,
        rules: ColocateRules | None = None,
    ) -> None:
        self._slowdown, self._fits, self._learns = slowdown, fits, learns
        self._rules = rules or ColocateRules()

    def begin(self, simulation: Simulation) -> None:
        """Get ready for a replay."""
        self._simulation = simulation
        self._beliefs = PairBeliefs(self._slowdown, self._fits)
        self._refused: set[tuple[int, int, float, int]] = set()
        self._means = GroupMeans(simulation.trace)
        self._pending: ByKind[tuple[int, int, int]] = ByKind()
        self._demand = Demand(len(self._rules.levels.levels_gpu_s) + 1)
        self._running: dict[int, None] = {}
        self._holdings = Holdings(simulation.site.quotas)
        self._victims = Victims(
            simulation, self._running, self._holdings, self._rules.eviction, self._rules.levels
        )
        self._reclaiming = Reclaiming(
            simulation, self._running, self._holdings.borrows, self._rules.reclaim
        )
        self._claimed_s: dict[int, float] = {}  # by queue: since when it waits for its quota
        self._look_s = float("inf")  # when to look again at such queues
        self._spreading = Spreading(simulation, self._running, self._rules.spread)
        self._watched: list[tuple[float, int, int, int]] = []
        self._evicted: list[int] = []

    def submitted(self, job: int) -> None:
        """Take in a job that has arrived."""
        self._holdings.ask(self._simulation.queue[job], self._simulation.gpus[job])
        self._wait(job)

    def finished(self, job: int) -> None:
        """Take note that a job has left its cards."""
        queue, gpus = self._simulation.queue[job], self._simulation.gpus[job]
        self._holdings.hold(queue, -gpus, self._simulation.now)
        self._holdings.ask(queue, -gpus)
        del self._running[job]
        self._means.observe(job)
        self._pending.freed()

    def schedule(self) -> None:
        """Learn from who has been together long enough, then start what can."""
        self._observe()
        if self._simulation.now >= self._look_s:
            self._look_s = float("inf")
            self._pending.freed()
        if not self._pending.jobs:
            self._spread()
            return
        cards = self._simulation.cards.count
        # In steps, so that the mates of a workload can be kept.
        pressure = round(excess(self._holdings.asked, cards) * STEPS) / STEPS
        self._tolerance = tolerance(pressure, self._rules.tolerance)
        self._caution = 1 + self._rules.caution * (1 - pressure) if self._learns else 1.0
        self._refused.clear()
        self._pending.offer(self._starts)
        if self._evicted:  # they may have a right to other cards: not only at the next event
            self._simulation.wake(self._simulation.now)
        for job in self._evicted:
            self._wait(job)
        self._evicted.clear()

    def _spread(self) -> None:
        """Move jobs that neighbours slow to cards that nobody waits for."""
        simulation = self._simulation
        for job in self._spreading.moves():
            simulation.evict(job, "for a card of its own")
            simulation.start(job, simulation.cards.take_empty(simulation.gpus[job]), "moved")

    def _wait(self, job: int) -> None:
        simulation = self._simulation
        done = simulation.attained_s(job) * simulation.gpus[job]
        level = self._rules.levels.level(done)
        self._demand.add(job, level, simulation.gpus[job])
        key = level * BEYOND + max(done, self._means.key(job))
        kind = simulation.queue[job], simulation.workload[job], simulation.gpus[job]
        self._pending.push(kind, key, job)

    def _starts(self, kind: tuple[int, int, int], job: int) -> bool:
        queue, workload, gpus = kind
        is_within = self._holdings.is_within(queue, self._simulation.now)
        best_effort, guaranteed = self._tolerance, self._rules.levels.guaranteed_slowdown
        level = self._rules.levels.level(self._simulation.attained_s(job) * gpus)
        if level == 0:  # so short a job does not slow its neighbour for long
            best_effort = max(best_effort, self._rules.levels.fresh_slowdown)
        in_quota = self._holdings.fits(queue, gpus)
        level = 0 if in_quota else level
        if in_quota:
            self._claimed_s.setdefault(queue, self._simulation.now)
        most = guaranteed if is_within else best_effort
        like = workload, gpus, most, ~queue if in_quota else level  # each has a claim of its own
        if like in self._refused:
            return False
        bounds = Tolerances(most, best_effort, guaranteed, self._caution)
        mates = self._beliefs.mates(workload, bounds)
        cards = joined_cards(self._simulation, gpus, mates)
        if cards is None and self._make_room(gpus, level, mates):
            cards = joined_cards(self._simulation, gpus, mates)
        if cards is None and in_quota:
            cards = self._reclaimed(queue, gpus, mates)
        if cards is None:
            self._refused.add(like)
            return False
        self._holdings.hold(queue, gpus, self._simulation.now)
        self._claimed_s.pop(queue, None)
        self._demand.remove(job)
        self._simulation.kind[job] = kind_of(workload, is_guaranteed=is_within)
        why = f"tolerance {most:.3f}, of neighbours {best_effort:.3f}"
        self._simulation.start(job, cards, why)
        self._running[job] = None
        self._watch(job, cards)
        return True

    def _make_room(self, gpus: int, level: int, mates: Mates) -> bool:
        """Evict the cheapest running jobs that let a gang start; none if they would not."""
        victims = self._victims.chosen(gpus, level, self._demand.upto(level), mates)
        for victim in victims or ():
            self._evict(victim)
        return victims is not None

    def _reclaimed(self, queue: int, gpus: int, mates: Mates) -> list[int] | None:
        """Take back for a queue below its quota what others have borrowed, or look again soon."""
        claimed_s = self._claimed_s[queue]
        for victim in self._reclaiming.chosen(gpus, mates, claimed_s) or ():
            self._evict(victim, "for the nominal quota of another queue")
        cards = joined_cards(self._simulation, gpus, mates)
        if cards is None and self._look_s == float("inf"):
            self._look_s = self._simulation.now + self._rules.reclaim.every_s
            self._simulation.wake(self._look_s)
        return cards

    def _evict(self, job: int, reason: str = "for a job that has had less") -> None:
        simulation = self._simulation
        simulation.evict(job, reason)
        self._holdings.hold(simulation.queue[job], -simulation.gpus[job], simulation.now)
        del self._running[job]
        self._evicted.append(job)
        self._pending.freed()
        self._refused.clear()

    def _watch(self, job: int, cards: list[int]) -> None:
        """Measure this pair later, if both are one-card jobs: then a speed is one pair's."""
        simulation = self._simulation
        if not self._learns or len(cards) != 1:
            return
        other = simulation.cards.neighbour(cards[0], job)
        if other != NOBODY and simulation.gpus[other] == 1:
            at_s = simulation.now + self._rules.observe_s
            heappush(self._watched, (at_s, job, other, cards[0]))

    def _observe(self) -> None:
        simulation = self._simulation
        while self._watched and self._watched[0][0] <= simulation.now:
            _, job, other, card = heappop(self._watched)
            together = simulation.on[job] == (card,) == simulation.on[other]
            if together:
                pair = simulation.workload[job], simulation.workload[other]
                self._beliefs.observe(*pair, simulation.slowdown(job))
                self._beliefs.observe(*pair[::-1], simulation.slowdown(other))
