"""Whom to evict so that a job can start: the cheapest set that really lets it, or nobody."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import heapify, heappop, heappush
from itertools import combinations

from scheduler_client.policy.choosing import fitting_cards
from scheduler_client.policy.decisions import Eviction, Ground
from scheduler_client.policy.giving_way import OWED, Field, Rights, rights_of
from scheduler_client.policy.ledger import Ledger, added
from scheduler_client.policy.placing import Search, judged
from scheduler_client.policy.quota import is_guaranteed
from scheduler_client.policy.scoring import Candidate
from scheduler_client.policy.view import CardState, RunningJob

GROUNDS = (Ground.SERVICE, Ground.RECLAIM, Ground.PASSED, Ground.PRIORITY)
"""In the order in which they are tried."""

MOST_TOGETHER = 2
"""Residents of one card that are evicted together, unless all are."""


@dataclass(frozen=True, slots=True)
class _Option:
    """That a card would do once some of its residents have left."""

    card_id: str
    gpu_model: str
    victims: tuple[str, ...]


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
    free = [card_id for card_id in fitting if _will_do(ledger.cards[card_id], search)]
    if len(touched.union(free)) < search.job.gpus:
        return None
    is_one = search.job.gpus == 1
    found = []
    for model in sorted({ledger.cards[c].gpu_model for c in touched.union(free)}):
        usable = [c for c in free if ledger.cards[c].gpu_model == model]
        cards = [ledger.cards[c] for c in sorted(touched) if ledger.cards[c].gpu_model == model]
        options = (_cheapest_option if is_one else _all_options)(cards, search, rights)
        for is_shared in (False,) if is_one else (False, True):
            trial = _Trial(search, rights, options, is_shared=is_shared)
            if trial.evict_for_cards(usable) and trial.evict_for_quota():
                victims, card_ids = trial.spared()
                cost = sum(field.costs[victim] for victim in victims)
                found.append((cost, model, victims, card_ids))
    return min(found)[2:] if found else None


def _all_options(cards: Iterable[CardState], search: Search, rights: Rights) -> list[_Option]:
    return [option for card in cards for option in _options(card, search, rights)]


def _cheapest_option(cards: Iterable[CardState], search: Search, rights: Rights) -> list[_Option]:
    """Return the cheapest option that a one-card job may have, if there is any.

    A card is looked at only once nothing can be cheaper than its cheapest resident: of ten
    thousand cards, a few.
    """
    costs, victims = rights.field.costs, rights.victims
    heap: list[tuple[float, str, int, _Option | None]] = [
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
        elif _may_give(option.victims, search, rights, ledger):
            return [option]
    return []


def _may_give(victims: Iterable[str], search: Search, rights: Rights, ledger: Ledger) -> bool:
    """Return whether the victims' queues hold more than their own, each as it leaves.

    In some order: the neighbour of one that has left holds more than before.
    """
    gone: list[RunningJob] = []
    left = [rights.victims[victim] for victim in victims]
    while left:
        able = (job for job in left if _holds_more(job, gone, search, rights, ledger))
        job = next(able, None)
        if job is None:
            return False
        left.remove(job)
        gone.append(job)
    return True


def _holds_more(
    job: RunningJob, gone: Sequence[RunningJob], search: Search, rights: Rights, ledger: Ledger
) -> bool:
    if job.queue == search.job.queue:
        return True
    held = ledger.held_without(gone, job.queue)
    return not is_guaranteed(rights.field.queues[job.queue], held)


def _options(card: CardState, search: Search, rights: Rights) -> Iterator[_Option]:
    """Yield the smallest sets of residents without whom a card would do."""
    eligible = rights.victims
    mine = [r.job_id for r in card.residents if r.job_id in eligible]
    sizes = sorted({*range(1, min(MOST_TOGETHER, len(mine)) + 1), len(mine)} - {0})
    done: list[set[str]] = []
    for size in sizes:
        for victims in combinations(mine, size):
            if any(smaller <= set(victims) for smaller in done):
                continue
            if _will_do(_without(card, victims, eligible), search):
                if not rights.field.is_last_resort or _may_give(
                    victims, search, rights, search.board.ledger
                ):
                    done.append(set(victims))
                yield _Option(card.card_id, card.gpu_model, victims)


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


def _will_do(card: CardState, search: Search) -> bool:
    """Return whether a job could go to a card if its quota were no matter."""
    answer = judged(card, search, is_quota_free=True)
    return isinstance(answer, Candidate)


class _Trial:
    """Evicts on paper, the cheapest card first.

    Parameters
    ----------
    is_shared : bool
        Count only its part of a victim's cost for each card that its end frees; a gang then
        counts as cheap as it is, and may free more than is needed. Which of the two is cheaper
        in the end shows when nobody more can be spared.
    """

    def __init__(
        self, search: Search, rights: Rights, options: Sequence[_Option], *, is_shared: bool
    ) -> None:
        self._search, self._rights = search, rights
        self._field, self._eligible = rights.field, rights.victims
        self._options = options
        self._by_victim: dict[str, list[int]] = {}
        for number, option in enumerate(options):
            for victim in option.victims:
                self._by_victim.setdefault(victim, []).append(number)
        most = search.job.gpus if is_shared else 1
        self._parts = {v: min(most, len(found)) for v, found in self._by_victim.items()}
        self._ledger = search.board.ledger.copy()
        self._victims: list[str] = []
        self._cards: list[str] = []

    def evict_for_cards(self, free: Sequence[str]) -> bool:
        """Evict until there are enough cards."""
        gpus, options = self._search.job.gpus, self._options
        self._cards = list(free[:gpus])
        heap = [(self._price(option), number) for number, option in enumerate(options)]
        heapify(heap)
        aside: list[int] = []
        while heap and len(self._cards) < gpus:
            price, number = heappop(heap)
            option = options[number]
            if option.card_id in self._cards or price != self._price(option):
                continue
            new = [victim for victim in option.victims if victim not in self._victims]
            if not _may_give(new, self._search, self._rights, self._ledger):
                aside.append(number)
                continue
            self._evict(new)
            self._cards.append(option.card_id)
            changed = {other for victim in new for other in self._by_victim[victim]}
            for other in changed.union(aside if new else ()):  # cheaper, or its queue holds more
                heappush(heap, (self._price(options[other]), other))
            aside = [] if new else aside
        return len(self._cards) == gpus

    def evict_for_quota(self) -> bool:
        """Evict more until the quota allows the job, the cheapest first."""
        rest = sorted(self._eligible.keys() - set(self._victims), key=self._key)
        for victim in rest:
            if self._is_allowed(self._ledger, self._cards):
                return True
            if _may_give([victim], self._search, self._rights, self._ledger):
                self._evict([victim])
        return self._is_allowed(self._ledger, self._cards)

    def spared(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the victims without whom it does not work, and the cards; the dearest go first."""
        victims = list(self._victims)
        for victim in sorted(self._victims, key=self._key, reverse=True):
            fewer = [other for other in victims if other != victim]
            ledger = self._search.board.ledger.copy()
            for other in fewer:
                ledger.release(self._eligible[other])
            does = all(_will_do(ledger.cards[card], self._search) for card in self._cards)
            may = self._may_give_from_the_start(fewer)
            if does and may and self._is_allowed(ledger, self._cards):
                victims = fewer
        return tuple(sorted(victims)), tuple(self._cards)

    def _may_give_from_the_start(self, victims: Iterable[str]) -> bool:
        return _may_give(victims, self._search, self._rights, self._search.board.ledger)

    def _key(self, victim: str) -> tuple[float, str]:
        return self._field.costs[victim], victim

    def _price(self, option: _Option) -> float:
        new = (victim for victim in option.victims if victim not in self._victims)
        return sum(self._field.costs[victim] / self._parts[victim] for victim in new)

    def _evict(self, victims: Iterable[str]) -> None:
        for victim in victims:
            self._victims.append(victim)
            self._ledger.release(self._eligible[victim])

    def _is_allowed(self, ledger: Ledger, card_ids: Iterable[str]) -> bool:
        name = self._search.job.queue
        changes: dict[str, float] = {}
        for card_id in card_ids:
            changes = added(changes, ledger.changes(name, ledger.cards[card_id]))
        queue = self._field.queues[name]
        after = ledger.book.held(name) + changes.get(name, 0.0)
        is_worn = self._field.history.is_worn(self._search.job.job_id)
        must_be_within = is_worn or self._rights.ground in OWED
        return ledger.book.allows(name, changes) and (
            is_guaranteed(queue, after) or not must_be_within
        )
