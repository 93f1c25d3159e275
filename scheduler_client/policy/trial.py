"""Evictions on paper: whether a job could start once some others have left, and who is spared."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

from scheduler_client.policy.giving_way import OWED, Rights
from scheduler_client.policy.ledger import Ledger, added
from scheduler_client.policy.placing import Search, judged
from scheduler_client.policy.quota import is_guaranteed
from scheduler_client.policy.scoring import Candidate
from scheduler_client.policy.view import CardState, RunningJob


@dataclass(frozen=True, slots=True)
class Option:
    """That a card would do once some of its residents have left."""

    card_id: str
    gpu_model: str
    victims: tuple[str, ...]


def may_give(victims: Iterable[str], search: Search, rights: Rights, ledger: Ledger) -> bool:
    """Return whether the victims' queues hold more than their own, each as it leaves.

    In some order: the neighbour of one that has left holds more than before.
    """
    gone: list[RunningJob] = []
    # The largest last: what a queue holds beyond its own is then left for it the longest.
    left = sorted((rights.victims[victim] for victim in victims), key=lambda job: len(job.card_ids))
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


def will_do(card: CardState, search: Search) -> bool:
    """Return whether a job could go to a card if its quota were no matter."""
    answer = judged(card, search, is_quota_free=True)
    return isinstance(answer, Candidate)


class Trial:
    """Evicts on paper, the cheapest card first.

    Parameters
    ----------
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
        self._queues = {job.queue for job in self._eligible.values()}
        self._by_cost = iter(sorted(self._eligible, key=self._key))
        if first:
            self._ledger = self._ledger.copy()
            self._leave(first, self._ledger)
            self._victims += first

    def evict_for_cards(self, free: Sequence[str]) -> bool:
        """Evict until there are enough cards."""
        gpus, options = self._search.job.gpus, self._options
        self._cards = list(free[:gpus])
        heap = [(self._price(option), number) for number, option in enumerate(options)]
        heapify(heap)
        aside: list[int] = []
        while len(self._cards) < gpus:
            if not heap:
                if not aside or not self._makes_way():
                    return False
                heap, aside = [(self._price(options[number]), number) for number in aside], []
                heapify(heap)
            price, number = heappop(heap)
            option = options[number]
            if option.card_id in self._cards or price != self._price(option):
                continue
            new = tuple(victim for victim in option.victims if victim not in self._victims)
            if not self._may_leave(new):
                aside.append(number)
                continue
            self._evict(new)
            self._cards.append(option.card_id)
            changed = {other for victim in new for other in self._by_victim[victim]}
            for other in changed.union(aside if new else ()):  # cheaper, or its queue holds more
                heappush(heap, (self._price(options[other]), other))
            aside = [] if new else aside
        return True

    def _makes_way(self) -> bool:
        """Evict the cheapest, as a last resort, until one more queue holds more than its own.

        Whoever shares cards with them: such a queue held halves of them before.
        """
        if not self._field.is_last_resort:
            return False
        over = self._over()
        for victim in self._by_cost:
            if victim not in self._victims and self._may_leave((victim,)):
                self._evict((victim,))
                if self._over() - over:
                    return True
        return False

    def _over(self) -> set[str]:
        queues, held = self._field.queues, self._ledger.held_by_queue
        return {
            name for name in self._queues if not is_guaranteed(queues[name], held.get(name, 0.0))
        }

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
        return may_give(victims, self._search, self._rights, self._search.board.ledger)

    def _may_leave(self, victims: tuple[str, ...]) -> bool:
        """Return whether more may leave, and `first` after them."""
        if may_give((*victims, *self._first), self._search, self._rights, self._before):
            return True
        self._refused[victims] = None
        return False

    def _cards_of(self, victim: str) -> int:
        return len(self._eligible[victim].card_ids)

    def _key(self, victim: str) -> tuple[float, str]:
        return self._field.costs[victim], victim

    def _price(self, option: Option) -> float:
        new = (victim for victim in option.victims if victim not in self._victims)
        return sum(self._field.costs[victim] / self._parts[victim] for victim in new)

    def _evict(self, victims: Sequence[str]) -> None:
        self._victims += victims
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
