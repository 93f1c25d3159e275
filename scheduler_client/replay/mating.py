"""Which cards a job gets: empty ones first, then beside the mates that cost least."""

from itertools import islice

from scheduler_client.replay.pair_beliefs import Mates
from scheduler_client.replay.simulation import Simulation

Offer = tuple[float, bool, int]
"""What joining costs, whether a gang is joined, and its job or else the kind of mates."""


def joined_cards(simulation: Simulation, gpus: int, mates: Mates) -> list[int] | None:
    """Return as many cards as a gang needs, or None if too few will do.

    Sharing one card of a gang slows all of it, so that what a gang loses beyond its present
    slowdown counts once for each of its cards; once slowed, it can be joined for nothing.

    Parameters
    ----------
    simulation : Simulation
        All running jobs have a kind of `kind_of`.
    gpus : int
        Size of the gang to place.
    mates : mapping of int to Mate
        Whom it may join.
    """
    cards = simulation.cards
    empty = len(cards.empty)
    if gpus <= empty:
        return cards.take_empty(gpus)
    offers = _one_card_jobs(simulation, gpus - empty, mates)
    offers += _gangs(simulation, gpus - empty, mates)
    offers.sort()
    chosen = cards.take_empty(empty)
    for _, is_gang, key in offers:
        half = cards.half_by_gang[key] if is_gang else cards.half_by_kind[key]
        chosen += islice(half, gpus - len(chosen))
        if len(chosen) == gpus:
            return chosen
    return None


def _one_card_jobs(simulation: Simulation, wanted: int, mates: Mates) -> list[Offer]:
    offers: list[Offer] = []
    half_by_kind = simulation.cards.half_by_kind
    if not half_by_kind:
        return offers
    for kind, mate in mates.items():
        half = half_by_kind.get(kind)
        if half:
            offers.append((mate.cost, False, kind))
            wanted -= len(half)
            if wanted <= 0:  # the rest costs more
                break
    return offers


def _gangs(simulation: Simulation, wanted: int, mates: Mates) -> list[Offer]:
    offers: list[Offer] = []
    kinds = simulation.kind
    for job, half in simulation.cards.half_by_gang.items():
        mate = mates.get(kinds[job])
        if mate is not None:
            loss = max(0.0, mate.theirs - simulation.slowdown(job)) * simulation.gpus[job]
            offers.append((mate.mine - 1 + loss / min(len(half), wanted), True, job))
    return offers
