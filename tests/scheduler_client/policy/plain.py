"""The list policy as it is defined: every job against every card, one after the other.

The policy that runs groups equal cards and keeps its sums up to date; it must decide the same.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from scheduler_client.policy.card_groups import CardGroups
from scheduler_client.policy.decide import PolicyRules
from scheduler_client.policy.decisions import Reason
from scheduler_client.policy.filtering import Capacity
from scheduler_client.policy.holds import Holds
from scheduler_client.policy.ledger import Ledger, added
from scheduler_client.policy.outlook import Outlooks
from scheduler_client.policy.placing import Board, PlacingRules, Search, demand_of, judged
from scheduler_client.policy.predictions import NO_FORECAST, Predictions
from scheduler_client.policy.queue_order import (
    Ageing,
    FifoOrder,
    Rank,
    Share,
    _by_queue,
    _rounded,
    job_rank,
    weighted_share,
)
from scheduler_client.policy.quota import SLACK_GPUS, most_gpus, unlent_gpus
from scheduler_client.policy.scoring import score
from scheduler_client.policy.service_order import ServiceOrder
from scheduler_client.policy.tolerance import tolerance
from scheduler_client.policy.view import ClusterView, PendingJob, Queue, UserKey, pressure


class QuotaCheck:
    """Kueue's arithmetic: what one queue may take now, by sums over its cohort."""

    def __init__(
        self, queue: Queue, queues: Mapping[str, Queue], held: Mapping[str, float]
    ) -> None:
        self._queue, self._held = queue, held
        same = (q for q in queues.values() if q.cohort == queue.cohort)
        self._members = {queue.name: queue} if queue.cohort is None else {q.name: q for q in same}
        lendable = sum(q.nominal_quota_gpus - unlent_gpus(q) for q in self._members.values())
        self._taken = sum(self._taken_by(name, 0.0) for name in self._members)
        self._most_taken = max(lendable, self._taken)

    def allows(self, changes: Mapping[str, float]) -> bool:
        """Return whether the queue may cause these changes.

        Parameters
        ----------
        changes : mapping of str to float
            By queue; the jobs that share a card with a new one hold less of it.
        """
        name = self._queue.name
        if self._held.get(name, 0.0) + changes.get(name, 0.0) > most_gpus(self._queue) + SLACK_GPUS:
            return False
        moved = (n for n in changes if n in self._members)
        more = sum(self._taken_by(n, changes[n]) - self._taken_by(n, 0.0) for n in moved)
        return self._taken + more <= self._most_taken + SLACK_GPUS

    def _taken_by(self, name: str, change: float) -> float:
        """Return how much of the cohort's common GPUs a queue holds."""
        return max(0.0, self._held.get(name, 0.0) + change - unlent_gpus(self._members[name]))


class PlainOrder:
    """The queue with the lowest weighted share, in it the user who has used least, then rank."""

    def __init__(self, view: ClusterView, predictions: Predictions, ageing: Ageing) -> None:
        self._history = view.history_gpus
        self._queues = {queue.name: queue for queue in view.queues}
        self._history_by_queue = _by_queue(view)
        self._ranked: dict[UserKey, list[tuple[Rank, PendingJob]]] = {}
        for pending in view.pending:
            forecast = predictions.get(pending.job.job_id, NO_FORECAST)
            rank = job_rank(pending, forecast, view.now, ageing)
            key = (pending.job.queue, pending.job.user)
            self._ranked.setdefault(key, []).append((rank, pending))
        for ranked in self._ranked.values():
            ranked.sort(key=lambda pair: pair[0], reverse=True)

    def next(self, ledger: Ledger) -> PendingJob | None:
        """Return the best job of the user whose turn it is."""
        if not self._ranked:
            return None
        turn = min(self._ranked, key=lambda key: self._turn(key, ledger))
        ranked = self._ranked[turn]
        _, pending = ranked.pop()
        if not ranked:
            del self._ranked[turn]
        return pending

    def _turn(self, key: UserKey, ledger: Ledger) -> tuple[Share, float, Rank]:
        name = key[0]
        used = ledger.held_by_queue.get(name, 0.0) + self._history_by_queue.get(name, 0.0)
        mine = ledger.held.get(key, 0.0) + self._history.get(key, 0.0)
        return (
            weighted_share(self._queues.get(name), used),
            _rounded(mine),
            self._ranked[key][-1][0],
        )


class PlainBook:
    """Looks like a quota book, and sums everything up anew for every question."""

    def __init__(self, queues, ledger: Ledger) -> None:
        self._queues, self._ledger = queues, ledger

    def hold(self, name: str, gpus: float) -> None:
        """Take in nothing: the ledger is asked."""

    def allows(self, name: str, changes) -> bool:
        check = QuotaCheck(self._queues[name], self._queues, self._ledger.held_by_queue)
        return check.allows(changes)


def plain_decisions(view: ClusterView, predictions, rules: PolicyRules):
    """Return who is admitted to which cards, in order, and the reason why each other waits."""
    cycle, admitted, waits = PlainCycle(view, predictions, rules), [], {}
    while (pending := cycle.order.next(cycle.ledger)) is not None:
        answer = cycle.answer(pending)
        if isinstance(answer, Reason):
            waits[pending.job.job_id] = answer
        else:
            admitted.append((pending.job.job_id, answer))
    return admitted, waits


class PlainCycle:
    """One job's turn after the other's: the cards that it gets, or the reason why it waits."""

    def __init__(self, view: ClusterView, predictions, rules: PolicyRules) -> None:
        self.view, self.predictions, self.rules = view, predictions, rules
        self.queues = {queue.name: queue for queue in view.queues}
        self.ledger, self.capacity = Ledger(view), Capacity(view.cards)
        self.ledger.book = PlainBook(self.queues, self.ledger)
        self.order = plain_order(view, predictions, rules)

    def answer(self, pending: PendingJob) -> tuple[str, ...] | Reason:
        """Return the cards that a job gets, which it then holds, or why it waits."""
        queue = self.queues.get(pending.job.queue)
        if queue is None:
            return Reason.UNKNOWN_QUEUE
        if queue.is_held:
            return Reason.HELD
        if self.capacity.is_impossible(pending):
            return Reason.IMPOSSIBLE
        return self._placed(self._search(pending), queue)

    def _placed(self, search: Search, queue: Queue) -> tuple[str, ...] | Reason:
        answers = [judged(card, search) for card in self.ledger.cards.values()]
        fitting = [answer for answer in answers if not isinstance(answer, Reason)]
        check = QuotaCheck(queue, self.queues, self.ledger.held_by_queue)
        gang = best_gang(fitting, search, check)
        if gang is not None:
            cards = tuple(candidate.card.card_id for candidate in gang)
            self.ledger.admit(search.job, cards, [candidate.mem_mib for candidate in gang])
            return cards
        if fitting:
            return Reason.QUOTA if len(fitting) >= search.job.gpus else Reason.GANG
        return max(answers, key=list(Reason).index, default=Reason.HEALTH)

    def _search(self, pending: PendingJob) -> Search:
        rules, forecast = self.rules, self.predictions.get(pending.job.job_id, NO_FORECAST)
        placing = plain_placing(self.view, rules)
        return Search(
            pending,
            demand_of(pending, forecast, self.capacity.largest_mib, rules.max_jobs_per_card),
            forecast,
            Outlooks(rules.bound, []).of(forecast.colocations),
            Board(self.ledger, CardGroups((), self.ledger.owners, 1, {}), Holds()),
            placing
            if rules.levels is None
            else by_level(placing, pending, self.view, rules.levels),
        )


def plain_order(view: ClusterView, predictions, rules: PolicyRules):
    if rules.levels is not None:
        return ServiceOrder(view, predictions, rules.levels)
    if rules.order == "fair":
        return PlainOrder(view, predictions, rules.ageing)
    return FifoOrder(view)


def plain_placing(view: ClusterView, rules: PolicyRules) -> PlacingRules:
    return PlacingRules(
        rules.max_jobs_per_card,
        rules.asks,
        tolerance(plain_pressure(view, rules), rules.tolerance),
        rules.bound,
        rules.weights,
        any(pending.job.gpus > 1 for pending in view.pending),
    )


def plain_pressure(view, rules):
    if rules.levels is None:
        return pressure(view)
    gpus = len([card for card in view.cards if card.is_healthy])
    asked = sum(len(job.card_ids) for job in view.running) + sum(p.job.gpus for p in view.pending)
    return min(1.0, max(0.0, asked - gpus) / gpus) if gpus else 1.0


def by_level(placing, pending, view, levels):
    """Return the rules for one job: what it tolerates depends on its queue and its level."""
    asked = Counter({queue.name: 0 for queue in view.queues})
    asked.update(job.queue for job in view.running for _ in job.card_ids)
    asked.update(p.job.queue for p in view.pending for _ in range(p.job.gpus))
    within_quota = {
        q.name
        for q in view.queues
        if asked[q.name] <= q.nominal_quota_gpus and q.name not in view.ahead_gpu_s
    }
    most = placing.tolerance
    if pending.job.queue in within_quota:
        most = levels.guaranteed_slowdown
    elif pending.attained_gpu_s < levels.levels_gpu_s[0]:
        most = max(most, levels.fresh_slowdown)
    return replace(
        placing,
        tolerance=most,
        spared=frozenset(within_quota),
        spared_tolerance=levels.guaranteed_slowdown,
    )


def best_gang(fitting, search, check):
    """Return the best cards of one model that the quota allows together, or None."""
    rules, gangs, by_model = search.rules, [], {}
    for candidate in fitting:
        graded = score(candidate, rules.bound, rules.weights, gang_waits=rules.gang_waits).total
        by_model.setdefault(candidate.card.gpu_model, []).append((graded, candidate))
    for model, graded_cards in by_model.items():
        graded_cards.sort(key=lambda pair: (-pair[0], pair[1].card.card_id))
        changes, chosen = {}, []
        for graded, candidate in graded_cards:
            more = search.board.ledger.changes(search.job.queue, candidate.card)
            if len(chosen) < search.job.gpus and check.allows(added(changes, more)):
                changes = added(changes, more)
                chosen.append((graded, candidate))
        if len(chosen) == search.job.gpus:
            gangs.append((sum(graded for graded, _ in chosen), model, [c for _, c in chosen]))
    return max(gangs, key=lambda gang: gang[:2])[2] if gangs else None
