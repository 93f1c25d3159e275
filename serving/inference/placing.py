"""What happens if a job joins each of the cards, from slowdowns of pairs and one memory need."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from data.domain import Card, Estimate, Placement, Source
from serving.inference.combination import combined

PairKey = tuple[str, str, str]
"""Job key (the one slowed down), neighbour key, GPU model."""

CardKind = tuple[str, tuple[str, ...]]
"""GPU model, and the residents' job keys: all that a slowdown depends on."""

_GUESSED = (Source.COLD_START, Source.HEURISTIC)


@dataclass(frozen=True, slots=True)
class Sharing:
    """The slowdowns on a card after a job has joined it, and their cost.

    Attributes
    ----------
    job_slowdown : Estimate
    neighbour_slowdowns : tuple of Estimate
    cost : float
        Sum of (slowdown - 1) over the job and the residents. A resident's slowdown counts all its
        neighbours, those that were there before included, so a crowded card costs more.
    """

    job_slowdown: Estimate
    neighbour_slowdowns: tuple[Estimate, ...]
    cost: float


def kind_of(card: Card) -> CardKind:
    """Return what `card` has in common with every other of its kind."""
    return card.gpu_model, tuple([resident.job_key for resident in card.residents])


def pairs_on(job_key: str, kinds: Iterable[CardKind]) -> list[PairKey]:
    """Return every ordered pair that would share a card, each once.

    Examples
    --------
    >>> pairs_on("new", [("A100", ("old",))])
    [('new', 'old', 'A100'), ('old', 'new', 'A100')]
    """
    pairs: dict[PairKey, None] = {}
    for gpu_model, residents in kinds:
        everyone = (job_key, *residents)
        for at, key in enumerate(everyone):
            for other in (*everyone[:at], *everyone[at + 1 :]):
                pairs[key, other, gpu_model] = None
    return list(pairs)


def sharing(job_key: str, kind: CardKind, slowdowns: Mapping[PairKey, Estimate]) -> Sharing:
    """Return what happens on a card of `kind` when the job joins it.

    Parameters
    ----------
    slowdowns : mapping of (job key, neighbour key, GPU model) to Estimate
        Of every pair that `pairs_on` names.
    """
    gpu_model, residents = kind
    everyone = (job_key, *residents)
    job, *neighbours = (
        combined([slowdowns[key, other, gpu_model] for i, other in enumerate(everyone) if i != at])
        for at, key in enumerate(everyone)
    )
    cost = sum(estimate.value - 1.0 for estimate in (job, *neighbours))
    return Sharing(job, tuple(neighbours), cost)


def ranked_placements(
    cards: Sequence[Card],
    sharings: Sequence[Sharing],
    memory_on: Callable[[str], Estimate],
) -> tuple[Placement, ...]:
    """Return one placement a card, cheapest first; ties in the order of `cards`.

    Parameters
    ----------
    cards : sequence of Card
    sharings : sequence of Sharing
        One a card.
    memory_on : callable
        From a GPU model to the job's memory peak there (MiB).
    """
    needs = {model: memory_on(model) for model in {card.gpu_model for card in cards}}
    placements = []
    for card, shared in zip(cards, sharings, strict=True):
        memory = needs[card.gpu_model]
        placements.append(
            Placement(
                card.card_id,
                shared.job_slowdown,
                shared.neighbour_slowdowns,
                memory,
                memory.upper <= card.free_mem_mib or fits(memory, card),
                shared.cost,
            )
        )
    return tuple(sorted(placements, key=_cost))


def fits(memory: Estimate, card: Card) -> bool:
    """Return whether the upper memory estimate is within the card's free MiB.

    A need that is guessed, or predicted of something unlike what was learnt, may be tried on an
    empty card: there it can hurt no one, and is measured.

    Examples
    --------
    >>> unknown = Estimate(0.0, 0.0, 1e6, "none", Source.COLD_START)
    >>> fits(unknown, Card("gpu0", "A100", 40960))
    True
    """
    if memory.upper <= card.free_mem_mib:
        return True
    is_unsure = memory.source in _GUESSED or not memory.in_domain
    return is_unsure and memory.value <= card.free_mem_mib and not card.residents


def _cost(placement: Placement) -> float:
    return placement.cost
