"""Whom to evict so that a job can start: the cheapest set that really lets it, or nobody."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import heapify, heappop, heappush
from itertools import combinations

from scheduler_client.policy.choosing import fitting_cards
from scheduler_client.policy.decisions import Eviction
from scheduler_client.policy.eviction_cost import EvictionHistory, EvictionRules
from scheduler_client.policy.ledger import Ledger, added
from scheduler_client.policy.placing import Search, judged
from scheduler_client.policy.quota import SLACK_GPUS
from scheduler_client.policy.scoring import Candidate
from scheduler_client.policy.view import CardState, Queue, RunningJob, Whom

MOST_TOGETHER = 2
"""Residents of one card that are evicted together, unless all are."""


@dataclass(frozen=True, slots=True)
class Field:
    """What a search for victims goes by.

    Attributes
    ----------
    running : mapping of str to RunningJob
    priority : int
        Of the job that wants to start; see `PendingJob`.
    costs : mapping of str to float
        Of evicting each running job (GPU seconds).
    spoken_for : set of str
        Jobs that are ending, or are victims already.
    kept_cards : set of str
        Cards of those who had others evicted before in this cycle: nobody else gets in there.
    """

    queues: Mapping[str, Queue]
    running: Mapping[str, RunningJob]
    costs: Mapping[str, float]
    history: EvictionHistory
    rules: EvictionRules
    now: float
    spoken_for: frozenset[str]
    kept_cards: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class _Option:
    """That a card would do once some of its residents have left."""

    card_id: str
    gpu_model: str
    victims: tuple[str, ...]


def planned_eviction(search: Search, field: Field) -> Eviction | None:
    """Return whom to evict for a job that waits, or None where nothing would help it.

    Reclaim comes first: a queue takes back what is within its nominal quota from queues that
    hold more than theirs. Otherwise a job of higher priority may take the place of another of
    the same user. The set is checked as a whole: with all victims gone, the job fits and its
    quota allows it; and no victim can be spared.
    """
    queue = field.queues[search.job.queue]
    for is_reclaim in (True, False):
        found = _cheapest(search, field, _eligible(search, field, queue, is_reclaim=is_reclaim))
        if found is not None and found[0]:  # nobody: it waits for what no eviction gives
            victims, card_ids = found
            cost = sum(field.costs[victim] for victim in victims)
            return Eviction(search.job.job_id, victims, card_ids, cost, is_reclaim)
    return None


def _eligible(
    search: Search, field: Field, queue: Queue, *, is_reclaim: bool
) -> dict[str, RunningJob]:
    """Return the running jobs that may have to give way to this one."""
    whom = queue.reclaims if is_reclaim else queue.preempts
    held = search.board.ledger.book.held(queue.name)
    is_within = held + search.job.gpus <= queue.nominal_quota_gpus + SLACK_GPUS
    if whom is Whom.NEVER or (is_reclaim and (queue.cohort is None or not is_within)):
        return {}
    test = _gives_back if is_reclaim else _is_outranked
    return {
        job.job_id: job
        for job in field.running.values()
        if job.job_id not in field.spoken_for
        and not field.history.is_worn(job.job_id)
        and not field.history.gave_way(search.job.job_id, to=job.job_id)
        and test(job, search, field, queue)
    }


def _gives_back(job: RunningJob, search: Search, field: Field, queue: Queue) -> bool:
    """Return whether a job runs on what others lent to its queue."""
    lent_to = field.queues.get(job.queue)
    if lent_to is None or lent_to.cohort != queue.cohort or lent_to.name == queue.name:
        return False
    is_lower = job.priority < search.pending.priority
    return _over(search.board.ledger, lent_to) > SLACK_GPUS and (
        queue.reclaims is Whom.ANY or is_lower
    )


def _is_outranked(job: RunningJob, search: Search, field: Field, queue: Queue) -> bool:
    """Return whether a job of the same user is of lower priority, and has had its time."""
    is_mine = (job.queue, job.user) == (queue.name, search.job.user)
    has_run = field.now - job.start_time >= field.rules.least_run_s
    return is_mine and has_run and job.priority < search.pending.priority


def _cheapest(
    search: Search, field: Field, eligible: Mapping[str, RunningJob]
) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    if not eligible:
        return None
    ledger = search.board.ledger
    touched = {card_id for job in eligible.values() for card_id in job.card_ids}
    touched -= field.kept_cards
    fitting = (c for c in fitting_cards(search) if c not in field.kept_cards)
    free = [card_id for card_id in fitting if _will_do(ledger.cards[card_id], search)]
    options = [o for c in sorted(touched) for o in _options(ledger.cards[c], search, eligible)]
    models = {ledger.cards[c].gpu_model for c in free} | {o.gpu_model for o in options}
    found = []
    for model in sorted(models):
        usable = [c for c in free if ledger.cards[c].gpu_model == model]
        of_model = [option for option in options if option.gpu_model == model]
        for is_shared in (False, True):
            trial = _Trial(search, field, eligible, of_model, is_shared=is_shared)
            if trial.evict_for_cards(usable) and trial.evict_for_quota():
                victims, card_ids = trial.spared()
                cost = sum(field.costs[victim] for victim in victims)
                found.append((cost, model, victims, card_ids))
    return min(found)[2:] if found else None


def _options(
    card: CardState, search: Search, eligible: Mapping[str, RunningJob]
) -> Iterator[_Option]:
    """Yield the smallest sets of residents without whom a card would do."""
    mine = [r.job_id for r in card.residents if r.job_id in eligible]
    sizes = sorted({*range(1, min(MOST_TOGETHER, len(mine)) + 1), len(mine)} - {0})
    done: list[set[str]] = []
    for size in sizes:
        for victims in combinations(mine, size):
            if any(smaller <= set(victims) for smaller in done):
                continue
            if _will_do(_without(card, victims, eligible), search):
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


def _over(ledger: Ledger, queue: Queue) -> float:
    return ledger.book.held(queue.name) - queue.nominal_quota_gpus


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
        self,
        search: Search,
        field: Field,
        eligible: Mapping[str, RunningJob],
        options: Sequence[_Option],
        *,
        is_shared: bool,
    ) -> None:
        self._search, self._field, self._eligible = search, field, eligible
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
        while heap and len(self._cards) < gpus:
            price, number = heappop(heap)
            option = options[number]
            if option.card_id in self._cards or price != self._price(option):
                continue
            new = [victim for victim in option.victims if victim not in self._victims]
            if not self._may_all(new):
                continue
            self._evict(new)
            self._cards.append(option.card_id)
            for victim in new:  # its other cards have become cheaper
                for other in self._by_victim[victim]:
                    heappush(heap, (self._price(options[other]), other))
        return len(self._cards) == gpus

    def evict_for_quota(self) -> bool:
        """Evict more until the quota allows the job, the cheapest first."""
        rest = sorted(self._eligible.keys() - set(self._victims), key=self._key)
        for victim in rest:
            if self._is_allowed(self._ledger, self._cards):
                return True
            if self._may_all([victim]):
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
            if does and self._is_allowed(ledger, self._cards):
                victims = fewer
        return tuple(sorted(victims)), tuple(self._cards)

    def _key(self, victim: str) -> tuple[float, str]:
        return self._field.costs[victim], victim

    def _price(self, option: _Option) -> float:
        new = (victim for victim in option.victims if victim not in self._victims)
        return sum(self._field.costs[victim] / self._parts[victim] for victim in new)

    def _may_all(self, victims: Iterable[str]) -> bool:
        """Return whether the victims' queues hold more than their own, as each of them leaves."""
        name, ledger = self._search.job.queue, self._ledger
        left: dict[str, float] = {}
        for victim in victims:
            job = self._eligible[victim]
            if job.queue == name:
                continue
            over = left.get(job.queue, _over(ledger, self._field.queues[job.queue]))
            if over <= SLACK_GPUS:
                return False
            left[job.queue] = over - len(job.card_ids)
        return True

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
        is_within = after <= queue.nominal_quota_gpus + SLACK_GPUS
        mine = all(self._eligible[v].queue == name for v in self._victims)
        return ledger.book.allows(name, changes) and (mine or is_within)
