"""Whom to evict so that a job can start: the cheapest set that really lets it, or nobody."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from heapq import heapify, heappop, heappush
from itertools import combinations

from scheduler_client.policy.choosing import fitting_cards
from scheduler_client.policy.decisions import Eviction, Ground
from scheduler_client.policy.giving_way import OWED, Field, Rights, rights_of
from scheduler_client.policy.placing import Search
from scheduler_client.policy.trial import Option, Trial, refusing, will_do
from scheduler_client.policy.view import CardState, RunningJob

GROUNDS = (Ground.SERVICE, Ground.RECLAIM, Ground.PASSED, Ground.PRIORITY)
"""In the order in which they are tried."""

MOST_TOGETHER = 2
"""Residents of one card that are evicted together, unless all are."""

MOST_RETRIES = 4
"""Of what was out of reach, as cheaper jobs of the same queue had left: how much is tried first."""


def planned_eviction(search: Search, field: Field) -> Eviction | None:
    """Return whom to evict for a job that waits, or None where nothing would help it.

    By the first of its rights that helps (`giving_way.rights_of`). The set is checked as a whole:
    with all victims gone, the job fits and its quota allows it; and no victim can be spared.
    """
    return _first_eviction(GROUNDS, search, field)


def last_resort(search: Search, field: Field) -> Eviction | None:
    """Return how a job gets what is its queue's own where `planned_eviction` finds nothing.

    Those give way, too, whose queue holds too much only once their neighbours have left, and what
    is kept for jobs that yield may be used; where that alone will do, the eviction has no victims,
    and only says which cards are kept for the job.
    """
    holds = search.board.holds.yielded_by(field.yielding)
    search = replace(search, board=replace(search.board, holds=holds))
    return _first_eviction(OWED, search, replace(field, is_last_resort=True))


def _first_eviction(grounds: Iterable[Ground], search: Search, field: Field) -> Eviction | None:
    for ground in grounds:
        rights = rights_of(search, field, ground)
        found = None if rights is None else _cheapest(search, rights)
        if found is not None and (found[0] or field.is_last_resort):
            # nobody: it waits for what no eviction gives, or what is kept for others will do
            victims, card_ids = found
            cost = sum(field.costs[victim] for victim in victims)
            return Eviction(search.job.job_id, victims, card_ids, cost, ground)
    return None


def _cheapest(search: Search, rights: Rights) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    field, eligible, ledger = rights.field, rights.victims, search.board.ledger
    touched = {card_id for job in eligible.values() for card_id in job.card_ids}
    touched -= field.kept_cards
    fitting = (c for c in fitting_cards(search) if c not in field.kept_cards)
    free = [card_id for card_id in fitting if will_do(ledger.cards[card_id], search)]
    if len(touched.union(free)) < search.job.gpus:
        return None
    is_one = search.job.gpus == 1 and not field.is_last_resort
    found = []
    for model in sorted({ledger.cards[c].gpu_model for c in touched.union(free)}):
        usable = [c for c in free if ledger.cards[c].gpu_model == model]
        cards = [ledger.cards[c] for c in sorted(touched) if ledger.cards[c].gpu_model == model]
        options = (_cheapest_option if is_one else _all_options)(cards, search, rights)
        for is_shared in (False,) if is_one else (False, True):
            for victims, card_ids in _tried(search, rights, options, usable, is_shared):
                cost = sum(field.costs[victim] for victim in victims)
                found.append((cost, model, victims, card_ids))
    return min(found)[2:] if found else None


def _tried(
    search: Search, rights: Rights, options: Sequence[Option], free: Sequence[str], is_shared: bool
) -> Iterator[tuple[tuple[str, ...], tuple[str, ...]]]:
    """Yield the victims and cards of the first trial that works out, if one does.

    The cheapest may be all that a queue has to give, and too little. As a last resort what was
    out of reach after them is tried before them.
    """
    firsts: list[tuple[str, ...]] = [()]
    for first in firsts:
        trial = Trial(search, rights, options, is_shared=is_shared, first=first)
        if trial.evict_for_cards(free) and trial.evict_for_quota():
            yield trial.spared()
            return
        if not first and rights.field.is_last_resort:
            firsts += trial.out_of_reach()[:MOST_RETRIES]


def _all_options(cards: Iterable[CardState], search: Search, rights: Rights) -> list[Option]:
    return [option for card in cards for option in _options(card, search, rights)]


def _cheapest_option(cards: Iterable[CardState], search: Search, rights: Rights) -> list[Option]:
    """Return the cheapest option that a one-card job may have, if there is any.

    A card is looked at only once nothing can be cheaper than its cheapest resident: of ten
    thousand cards, a few.
    """
    costs, victims = rights.field.costs, rights.victims
    heap: list[tuple[float, str, int, Option | None]] = [
        (min(costs[name] for name in residents), card.card_id, 0, None)
        for card in cards
        if (residents := [r.job_id for r in card.residents if r.job_id in victims])
    ]
    heapify(heap)
    ledger = search.board.ledger
    while heap:
        _, card_id, _, option = heappop(heap)
        if option is None:
            options = _options(ledger.cards[card_id], search, rights)
            for number, each in enumerate(options, 1):
                price = sum(costs[victim] for victim in each.victims)
                heappush(heap, (price, card_id, number, each))
        elif not refusing(option.victims, search, rights, ledger):
            return [option]
    return []


def _options(card: CardState, search: Search, rights: Rights) -> Iterator[Option]:
    """Yield the smallest sets of residents without whom a card would do."""
    eligible = rights.victims
    mine = [r.job_id for r in card.residents if r.job_id in eligible]
    sizes = sorted({*range(1, min(MOST_TOGETHER, len(mine)) + 1), len(mine)} - {0})
    done: list[set[str]] = []
    for size in sizes:
        for victims in combinations(mine, size):
            if any(smaller <= set(victims) for smaller in done):
                continue
            if will_do(_without(card, victims, eligible), search):
                if not rights.field.is_last_resort or not refusing(
                    victims, search, rights, search.board.ledger
                ):
                    done.append(set(victims))
                yield Option(card.card_id, card.gpu_model, victims)


def _without(
    card: CardState, victims: Sequence[str], eligible: Mapping[str, RunningJob]
) -> CardState:
    stay = tuple(r for r in card.residents if r.job_id not in victims)
    if not stay:
        return replace(card, residents=(), free_mem_mib=card.total_mem_mib)
    freed = sum(
        eligible[victim].mem_mib[eligible[victim].card_ids.index(card.card_id)]
        for victim in victims
        if eligible[victim].mem_mib
    )
    free_mib = min(card.total_mem_mib, card.free_mem_mib + freed)
    return replace(card, residents=stay, free_mem_mib=free_mib)
