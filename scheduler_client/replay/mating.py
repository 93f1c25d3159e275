"""Which cards a job gets: empty ones first, then beside the mates that cost least."""

from dataclasses import dataclass
from itertools import islice

from scheduler_client.replay.pair_beliefs import PairBeliefs
from scheduler_client.replay.simulation import Simulation


@dataclass(frozen=True, slots=True)
class Tolerances:
    """The largest slowdown (>= 1) that a placement may be predicted to cause.

    Attributes
    ----------
    job : float
        To the job that is placed.
    best_effort, guaranteed : float
        To a neighbour, by what it is (`kind_of`).
    """

    job: float
    best_effort: float
    guaranteed: float


def kind_of(workload: int, *, is_guaranteed: bool) -> int:
    """Return the kind by which cards are indexed: the workload, and whose tolerance counts."""
    return 2 * workload + is_guaranteed


class Mating:
    """Chooses cards for one job at a time.

    Parameters
    ----------
    simulation : Simulation
        All running jobs have a kind of `kind_of`.
    beliefs : PairBeliefs
    """

    def __init__(self, simulation: Simulation, beliefs: PairBeliefs) -> None:
        self._simulation, self._cards, self._beliefs = simulation, simulation.cards, beliefs

    def cards(self, workload: int, gpus: int, bounds: Tolerances) -> list[int] | None:
        """Return as many cards as the gang needs, or None if too few will do.

        Sharing one card of a gang slows all of it, so that what a gang loses beyond its present
        slowdown counts once for each of its cards; once slowed, it can be joined for nothing.
        """
        empty = len(self._cards.empty)
        if gpus <= empty:
            return self._cards.take_empty(gpus)
        offers = self._one_card_jobs(workload, gpus - empty, bounds)
        offers += self._gangs(workload, gpus - empty, bounds)
        offers.sort()
        chosen = self._cards.take_empty(empty)
        for _, is_gang, key in offers:
            half = self._cards.half_by_gang[key] if is_gang else self._cards.half_by_kind[key]
            chosen += islice(half, gpus - len(chosen))
            if len(chosen) == gpus:
                return chosen
        return None

    def _one_card_jobs(
        self, workload: int, wanted: int, bounds: Tolerances
    ) -> list[tuple[float, bool, int]]:
        offers: list[tuple[float, bool, int]] = []
        half_by_kind = self._cards.half_by_kind
        if not half_by_kind:
            return offers
        for mate in self._beliefs.mates(workload):
            if mate.mine > bounds.job or mate.theirs > bounds.best_effort:
                continue
            for is_guaranteed in (False, True):
                if is_guaranteed and mate.theirs > bounds.guaranteed:
                    continue
                half = half_by_kind.get(2 * mate.workload + is_guaranteed)
                if half:
                    offers.append((mate.cost, False, 2 * mate.workload + is_guaranteed))
                    wanted -= len(half)
            if wanted <= 0:  # the rest costs more
                break
        return offers

    def _gangs(
        self, workload: int, wanted: int, bounds: Tolerances
    ) -> list[tuple[float, bool, int]]:
        offers: list[tuple[float, bool, int]] = []
        simulation, beliefs = self._simulation, self._beliefs
        for job, half in self._cards.half_by_gang.items():
            kind = simulation.kind[job]
            mate = beliefs.mate(workload, kind // 2)
            if mate is None or mate.mine > bounds.job:
                continue
            if mate.theirs > (bounds.guaranteed if kind % 2 else bounds.best_effort):
                continue
            loss = max(0.0, mate.theirs - simulation.slowdown(job)) * simulation.gpus[job]
            offers.append((mate.mine - 1 + loss / min(len(half), wanted), True, job))
        return offers
