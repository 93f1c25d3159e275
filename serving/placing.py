"""What happens if a job joins each of the cards, from slowdowns of pairs and one memory need."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from data.domain import Card, Estimate, Placement, Source
from serving.combination import combined
from serving.slowdowns import PairKey

_GUESSED = (Source.COLD_START, Source.HEURISTIC)


@dataclass(frozen=True, slots=True)
class Sharing:
    """The slowdowns on a card after the job has joined it, and their cost."""

    job_slowdown: Estimate
    neighbour_slowdowns: tuple[Estimate, ...]
    cost: float


def pairs_on(job_key: str, cards: Iterable[Card]) -> list[PairKey]:
    """Return every ordered pair that would share a card, each once.

    Examples
    --------
    >>> from data.domain import Resident
    >>> pairs_on("new", [Card("gpu0", "A100", 0, (Resident("1", "old"),))])
    [('new', 'old', 'A100'), ('old', 'new', 'A100')]
    """
    kinds = {(card.gpu_model, _keys(card)): None for card in cards}
    pairs: dict[PairKey, None] = {}
    for gpu_model, residents in kinds:
        everyone = (job_key, *residents)
        for at, key in enumerate(everyone):
            for other in (*everyone[:at], *everyone[at + 1 :]):
                pairs[key, other, gpu_model] = None
    return list(pairs)


def ranked_placements(
    job_key: str,
    cards: Sequence[Card],
    slowdowns: Mapping[PairKey, Estimate],
    memory_on: Callable[[str], Estimate],
) -> tuple[Placement, ...]:
    """Return one placement a card, cheapest first; ties in the order of `cards`.

    Parameters
    ----------
    job_key : str
    cards : sequence of Card
    slowdowns : mapping of (job key, neighbour key, GPU model) to Estimate
        Of every pair that `pairs_on` names.
    memory_on : callable
        From a GPU model to the job's memory peak there (MiB).

    Notes
    -----
    Cost is the sum of (slowdown - 1) over the job and the residents. A resident's slowdown counts
    all its neighbours, those that were there before included, so a crowded card costs more.
    """
    kinds: dict[tuple[str, tuple[str, ...]], Sharing] = {}
    needs: dict[str, Estimate] = {}
    placements = []
    for card in cards:
        model, keys = card.gpu_model, _keys(card)
        sharing = kinds.get((model, keys))
        if sharing is None:
            sharing = kinds[model, keys] = _sharing(job_key, keys, model, slowdowns)
        memory = needs.get(model)
        if memory is None:
            memory = needs[model] = memory_on(model)
        placements.append(
            Placement(
                card.card_id,
                sharing.job_slowdown,
                sharing.neighbour_slowdowns,
                memory,
                fits(memory, card),
                sharing.cost,
            )
        )
    return tuple(sorted(placements, key=lambda placement: placement.cost))


def fits(memory: Estimate, card: Card) -> bool:
    """Return whether the upper memory estimate is within the card's free MiB.

    A need that nobody knows fits an empty card: there it can hurt no one, and is measured.

    Examples
    --------
    >>> unknown = Estimate(0.0, 0.0, 1e6, "none", Source.COLD_START)
    >>> fits(unknown, Card("gpu0", "A100", 40960))
    True
    """
    if memory.upper <= card.free_mem_mib:
        return True
    return memory.source in _GUESSED and memory.value <= card.free_mem_mib and not card.residents


def _keys(card: Card) -> tuple[str, ...]:
    return tuple(resident.job_key for resident in card.residents)


def _sharing(
    job_key: str, keys: tuple[str, ...], gpu_model: str, slowdowns: Mapping[PairKey, Estimate]
) -> Sharing:
    everyone = (job_key, *keys)
    job, *neighbours = (
        combined([slowdowns[key, other, gpu_model] for i, other in enumerate(everyone) if i != at])
        for at, key in enumerate(everyone)
    )
    cost = sum(estimate.value - 1.0 for estimate in (job, *neighbours))
    return Sharing(job, tuple(neighbours), cost)
