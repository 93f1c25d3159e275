"""Evictions on paper: whether a job could start once some others have left, and who is spared."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

from scheduler_client.policy.giving_way import OWED, Rights
from scheduler_client.policy.ledger import Ledger, added
from scheduler_client.policy.placing import Search, judged
from scheduler_client.policy.quota import is_guaranteed
from scheduler_client.policy.scoring import Candidate
from scheduler_client.policy.view import CardState, RunningJob

_Priced = tuple[float, int]
"""What an option costs, and its number."""

NO_OPTION = -1
MOST_ON_THE_WAY = 100
"""Who leave as a last resort only for others to hold more: to look at more takes too long."""


@dataclass(frozen=True, slots=True)
class Option:
    """That a card would do once some of its residents have left.

    Attributes
    ----------
    card_id, gpu_model : str
    victims : tuple of str
        Job ids of these residents.
    """

    card_id: str
    gpu_model: str
    victims: tuple[str, ...]


def refusing(
    victims: Iterable[str], search: Search, rights: Rights, ledger: Ledger
) -> frozenset[str]:
    """Return the queues that hold no more than their own when the victims are to leave.

    None, where these may leave in some order: the neighbour of one that has left holds more than
    before, and of each queue the largest leaves last, as then what it holds beyond its own lasts
    the longest.

    Parameters
    ----------
    victims : iterable of str
        Job ids, all among ``rights.victims``.
    search : Search
        Of the job that they leave for; its own queue never refuses.
    rights : Rights
    ledger : Ledger
        What is held before the first of them leaves.
    """
    left: dict[str, list[RunningJob]] = {}
    for job in sorted((rights.victims[name] for name in victims), key=lambda j: -len(j.card_ids)):
        left.setdefault(job.queue, []).append(job)
    gone: set[str] = set()
    held = {queue: ledger.held_by_queue.get(queue, 0.0) for queue in left}
    while left:
        queue = next((q for q in left if _may(q, held[q], search, rights)), None)
        if queue is None:
            return frozenset(left)
        job = left[queue].pop()
        for other, gpus in ledger.freed_by(job, gone).items():
            held[other] = held.get(other, 0.0) + gpus
        gone.add(job.job_id)
        if not left[queue]:
            del left[queue]
    return frozenset()


def _may(queue: str, held_gpus: float, search: Search, rights: Rights) -> bool:
    is_own = queue == search.job.queue
    return is_own or not is_guaranteed(rights.field.queues[queue], held_gpus)


def will_do(card: CardState, search: Search) -> bool:
    """Return whether a job could go to a card if its quota were no matter."""
    answer = judged(card, search, is_quota_free=True)
    return isinstance(answer, Candidate)


class Trial:
    """Evicts on paper, the cheapest card first.

    Parameters
    ----------
    search : Search
        Of the job that is to start.
    rights : Rights
    options : sequence of Option
    is_shared : bool
        Count only its part of a victim's cost for each card that its end frees; a gang then
        counts as cheap as it is, and may free more than is needed. Which of the two is cheaper
        in the end shows when nobody more can be spared.
    first : tuple of str
        Victims in any case, who leave after all others of theirs.
    """

    def __init__(
        self,
        search: Search,
        rights: Rights,
        options: Sequence[Option],
        *,
        is_shared: bool,
        first: tuple[str, ...] = (),
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
        self._ledger = self._before = search.board.ledger.copy()  # before: `first` still there
        self._victims: list[str] = []
        self._cards: list[str] = []
        self._first, self._refused = first, dict[tuple[str, ...], None]()
        self._cheaper: set[int] = set()  # options that cost less than when they were put aside
        self._by_cost: Iterator[str] | None = None
        self._on_the_way = 0
        self._refusing: dict[int, dict[str, float]] = {}  # by option: what these queues held then
        if first:
            self._ledger = self._ledger.copy()
            self._leave(first, self._ledger)
            self._victims += first

    def evict_for_cards(self, free: Sequence[str]) -> bool:
        """Evict until there are enough cards."""
        gpus = self._search.job.gpus
        self._cards = list(free[:gpus])
        heap = [(self._price(option), number) for number, option in enumerate(self._options)]
        heapify(heap)
        aside: list[_Priced] = []
        while len(self._cards) < gpus:
            while self._cheaper:
                number = self._cheaper.pop()
                heappush(heap, (self._price(self._options[number]), number))
            if not heap:
                heap, aside = self._divided(aside)
                if not heap and not (aside and self._makes_way()):
                    return False
                continue
            price, number = heappop(heap)
            option = self._options[number]
            if self._is_still_refused(number):
                aside.append((price, number))
                continue
            if option.card_id in self._cards or price != self._price(option):
                continue
            new = tuple(victim for victim in option.victims if victim not in self._victims)
            if not self._may_leave(new, number):
                aside.append((price, number))
                continue
            self._evict(new)
            self._cards.append(option.card_id)
            if not self._field.is_last_resort:  # there are too many, and the first will do
                ready, aside = self._divided(aside)
                for each in ready:
                    heappush(heap, each)
        return True

    def _divided(self, aside: Sequence[_Priced]) -> tuple[list[_Priced], list[_Priced]]:
        """Return which options to try again, as a heap, and which are still refused."""
        parts: tuple[list[_Priced], list[_Priced]] = ([], [])
        for each in aside:
            parts[self._is_still_refused(each[1])].append(each)
        heapify(parts[0])
        return parts

    def _makes_way(self) -> bool:
        """Evict the cheapest, as a last resort, until one more queue holds more than its own.

        Whoever shares cards with them: such a queue held halves of them before.
        """
        if not self._field.is_last_resort:
            return False
        if self._by_cost is None:
            self._by_cost = iter(sorted(self._eligible, key=self._key))
        over = self._over()
        for victim in self._by_cost:
            if self._on_the_way == MOST_ON_THE_WAY:
                return False
            if victim not in self._victims and self._may_leave((victim,)):
                self._evict((victim,))
                self._on_the_way += 1
                if self._over() - over:
                    return True
        return False

    def _over(self) -> set[str]:
        queues = self._field.queues
        held = self._ledger.held_by_queue.items()
        return {q for q, gpus in held if q in queues and not is_guaranteed(queues[q], gpus)}

    def evict_for_quota(self) -> bool:
        """Evict more until the quota allows the job, the cheapest first."""
        rest = sorted(self._eligible.keys() - set(self._victims), key=self._key)
        for victim in rest:
            if self._is_allowed(self._ledger, self._cards):
                return True
            if self._may_leave((victim,)):
                self._evict([victim])
        return self._is_allowed(self._ledger, self._cards)

    def out_of_reach(self) -> list[tuple[str, ...]]:
        """Return who could have left from the start, but not after others; the largest first."""
        able = (each for each in self._refused if self._may_give_from_the_start(each))
        return sorted(able, key=lambda each: -sum(self._cards_of(victim) for victim in each))

    def spared(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the victims without whom it does not work, and the cards; the dearest go first."""
        victims = list(self._victims)
        for victim in sorted(self._victims, key=self._key, reverse=True):
            fewer = [other for other in victims if other != victim]
            ledger = self._search.board.ledger.copy()
            for other in fewer:
                ledger.release(self._eligible[other])
            does = all(will_do(ledger.cards[card], self._search) for card in self._cards)
            may = self._may_give_from_the_start(fewer)
            if does and may and self._is_allowed(ledger, self._cards):
                victims = fewer
        return tuple(sorted(victims)), tuple(self._cards)

    def _may_give_from_the_start(self, victims: Iterable[str]) -> bool:
        return not refusing(victims, self._search, self._rights, self._search.board.ledger)

    def _may_leave(self, victims: tuple[str, ...], number: int = NO_OPTION) -> bool:
        """Return whether more may leave, and `first` after them."""
        queues = refusing((*victims, *self._first), self._search, self._rights, self._before)
        held = self._before.held_by_queue
        if queues:
            self._refused[victims] = None
            self._refusing[number] = {queue: held.get(queue, 0.0) for queue in queues}
        return not queues

    def _is_still_refused(self, number: int) -> bool:
        """Return whether none of the queues that refused an option has got more since."""
        held, refused = self._before.held_by_queue, self._refusing.get(number)
        return refused is not None and all(
            held.get(queue, 0.0) <= gpus for queue, gpus in refused.items()
        )

    def _cards_of(self, victim: str) -> int:
        return len(self._eligible[victim].card_ids)

    def _key(self, victim: str) -> tuple[float, str]:
        return self._field.costs[victim], victim

    def _price(self, option: Option) -> float:
        new = (victim for victim in option.victims if victim not in self._victims)
        return sum(self._field.costs[victim] / self._parts[victim] for victim in new)

    def _evict(self, victims: Sequence[str]) -> None:
        self._victims += victims
        for number in (at for victim in victims for at in self._by_victim.get(victim, ())):
            self._cheaper.add(number)
            self._refusing.pop(number, None)  # that was of more victims
        for ledger in {id(each): each for each in (self._before, self._ledger)}.values():
            self._leave(victims, ledger)

    def _leave(self, victims: Iterable[str], ledger: Ledger) -> None:
        for victim in victims:
            ledger.release(self._eligible[victim])

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
