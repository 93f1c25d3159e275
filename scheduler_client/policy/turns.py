"""One job after the other: what each gets of the cards that those before it have left."""

from collections import Counter
from collections.abc import Iterator
from functools import cached_property
from itertools import zip_longest

from data.domain import Estimate
from scheduler_client.policy.card_groups import CardGroups
from scheduler_client.policy.choosing import Choice, best_cards
from scheduler_client.policy.claims import Claims
from scheduler_client.policy.decisions import Admission, Level, Reason, Waiting
from scheduler_client.policy.eviction_cost import EvictionHistory, EvictionRules
from scheduler_client.policy.filtering import Capacity, Demand
from scheduler_client.policy.holds import Holds
from scheduler_client.policy.kept_quota import KeptQuota
from scheduler_client.policy.ledger import Ledger
from scheduler_client.policy.outlook import Outlooks
from scheduler_client.policy.placing import (
    Board,
    Placed,
    Search,
    demand_of,
    judged,
)
from scheduler_client.policy.predictions import NO_FORECAST, Predictions
from scheduler_client.policy.queue_order import FairOrder, FifoOrder, Order
from scheduler_client.policy.quota import is_guaranteed
from scheduler_client.policy.reserving import Wanted, holds_of, latest_ends
from scheduler_client.policy.rules import PolicyRules
from scheduler_client.policy.scoring import Candidate, score, worst_slowdown
from scheduler_client.policy.service_order import ServiceOrder
from scheduler_client.policy.tolerated import Tolerated
from scheduler_client.policy.view import (
    ClusterView,
    PendingJob,
    Queue,
    Reservation,
)
from scheduler_client.policy.waiting import waiting


class Turns:
    """The pending jobs of one cycle, one after the other, on the cards that are left."""

    def __init__(self, view: ClusterView, predictions: Predictions, rules: PolicyRules) -> None:
        self.view, self.predictions, self.rules = view, predictions, rules
        self.queues = {queue.name: queue for queue in view.queues}
        self.running = {job.job_id: job for job in view.running}
        self.capacity = Capacity(view.cards)
        self.order = _order(view, predictions, rules)
        self.tolerated = Tolerated(view, rules)
        self.history = EvictionHistory(view.evictions, view.now, rules.eviction or EvictionRules())
        self.ledger, self.holds = Ledger(view), Holds()
        self.claims = Claims(view, self.ledger)
        self.wanted = self._wanted()
        if self.wanted:
            ends = latest_ends(view.pending, predictions, view.now, self.tolerated.most)
            self.holds = holds_of(self.wanted, view, ends)
        history = None if rules.eviction is None else self.history
        self.kept_quota = KeptQuota(self.wanted, self.queues, self.ledger, self.running, history)
        groups = CardGroups(
            view.cards, self.ledger.owners, rules.max_jobs_per_card, self.holds.numbers
        )
        self.board = Board(self.ledger, groups, self.holds)
        self.outlooks = Outlooks(rules.bound, groups.card_classes)

    def _wanted(self) -> tuple[Wanted, ...]:
        """Return the reservations whose job still waits and that can be met, with what it asks.

        First those of cards that were freed by evictions: no other may choose them.
        """
        pending = {one.job.job_id: one for one in self.view.pending}
        cards = {card.card_id: card.is_healthy for card in self.view.cards}
        return tuple(
            Wanted(kept, pending[kept.job_id], self.demand(pending[kept.job_id]))
            for kept in sorted(self.view.reservations, key=_hold_order)
            if kept.job_id in pending
            and all(cards.get(card_id) for card_id in kept.card_ids)
            and (kept.card_ids or self.claims.leave_room_for(pending[kept.job_id].job))
        )

    @property
    def yielding(self) -> frozenset[str]:
        """The jobs that cards are kept for before they can be within their queue's quota."""
        jobs = (wanted.pending.job for wanted in self.wanted if not wanted.is_fixed)
        is_too_soon = self.kept_quota.is_too_soon
        return frozenset(job.job_id for job in jobs if is_too_soon(job, self.queues[job.queue]))

    def in_order(self) -> Iterator[PendingJob]:
        """Yield every pending job once, those first that cards are kept for."""
        first = [wanted.pending for wanted in self.wanted]
        yield from first
        had = {pending.job.job_id for pending in first}
        while (pending := self.order.next(self.ledger)) is not None:
            if pending.job.job_id not in had:
                yield pending

    def demand(self, pending: PendingJob) -> Demand:
        """Return what a job asks of each of its cards."""
        forecast = self.predictions.get(pending.job.job_id, NO_FORECAST)
        most = self.rules.max_jobs_per_card
        return demand_of(pending, forecast, self.capacity.largest_mib, most)

    def search(self, pending: PendingJob) -> Search:
        """Return what a job's turn is about."""
        forecast = self.predictions.get(pending.job.job_id, NO_FORECAST)
        return Search(
            pending=pending,
            demand=self.demand(pending),
            forecast=forecast,
            outlook=self.outlooks.of(forecast.colocations),
            board=self.board,
            rules=self.tolerated.of(pending),
        )

    def answer(self, pending: PendingJob) -> Admission | Waiting:
        """Return what becomes of a job now."""
        job = pending.job
        queue = self.queues.get(job.queue)
        if queue is None:
            return Waiting(job.job_id, Reason.UNKNOWN_QUEUE)
        refused = self._refused(pending, queue)
        if refused is not None:
            return refused
        search = self.search(pending)
        choice = best_cards(search)
        if choice.placed is None:
            if job.job_id in self.freeing:
                return Waiting(job.job_id, Reason.FREEING)
            return waiting(search, choice, queue)
        return self._admission(search, queue, choice, choice.placed)

    def admit(self, pending: PendingJob, admission: Admission) -> None:
        """Put an admitted job on its cards."""
        before = [self.ledger.cards[card_id] for card_id in admission.card_ids]
        self.ledger.admit(pending.job, admission.card_ids, admission.mem_mib)
        for card in before:
            self.board.groups.replace(card, self.ledger.cards[card.card_id])

    def _refused(self, pending: PendingJob, queue: Queue) -> Waiting | None:
        """Return why a job may not start at all now, wherever there is room."""
        job_id, held = pending.job.job_id, self.ledger.held_by_queue.get(queue.name, 0.0)
        if queue.is_held:
            return Waiting(job_id, Reason.HELD)
        if self.capacity.is_impossible(pending):
            return Waiting(job_id, Reason.IMPOSSIBLE, (("gpus", float(pending.job.gpus)),))
        if self._must_not_borrow(pending, queue):
            numbers = (("held_gpus", held), ("nominal_quota_gpus", queue.nominal_quota_gpus))
            return Waiting(job_id, Reason.QUOTA, numbers)
        if self.kept_quota.refuses(pending, queue):
            return Waiting(job_id, Reason.RESERVED, (("held_gpus", held),))
        return None

    def _must_not_borrow(self, pending: PendingJob, queue: Queue) -> bool:
        """Return whether a job that was evicted too often would run on what others wait for.

        It is not evicted any more, so it starts within its queue's nominal quota, or while no
        other queue that could take back what it borrows has a job waiting.
        """
        if not self.history.is_worn(pending.job.job_id) or queue.cohort is None:
            return False
        after = self.ledger.held_by_queue.get(queue.name, 0.0) + pending.job.gpus
        return not is_guaranteed(queue, after) and self.claims.others_ask(queue)

    @cached_property
    def freeing(self) -> set[str]:
        """The jobs whose victims have not left yet."""
        running = self.running.keys()
        return {kept.job_id for kept in self.view.reservations if running & set(kept.victims)}

    def on_card(self, admission: Admission, pending: PendingJob, card_id: str) -> Admission:
        """Return an admission to one card as an admission to another that would do as well."""
        search = self.search(pending)
        rules = search.rules
        candidate = judged(self.ledger.cards[card_id], search, is_quota_free=True)
        assert isinstance(candidate, Candidate)  # what `better_cards` has found
        graded = score(candidate, rules.bound, rules.weights, gang_waits=rules.gang_waits)
        queue = self.queues[pending.job.queue]
        changes = self.ledger.changes(queue.name, candidate.card)
        choice = Choice(None, 1, Counter(dict(admission.refused)))
        return self._admission(search, queue, choice, Placed((candidate,), (graded,), changes))

    def _admission(self, search: Search, queue: Queue, choice: Choice, placed: Placed) -> Admission:
        pending, candidates = search.pending, placed.candidates
        held = self.ledger.held_by_queue.get(queue.name, 0.0) + placed.changes[queue.name]
        worst = max(worst_slowdown(c.colocation, self.rules.bound) for c in candidates)
        return Admission(
            job_id=pending.job.job_id,
            attempt=pending.attempt,
            card_ids=tuple(candidate.card.card_id for candidate in candidates),
            mem_mib=tuple(candidate.mem_mib for candidate in candidates),
            slowdown=_worst_of_job(candidates),
            neighbours=_neighbours(candidates),
            is_guaranteed=is_guaranteed(queue, held),
            level=search.forecast.level if self.rules.asks else Level.NONE,
            reason=_reason(candidates),
            evidence=(
                ("score", placed.scores[0].total),
                *placed.scores[0].terms,
                ("worst_slowdown", worst),
                ("tolerance", search.rules.tolerance),
                ("pressure", self.tolerated.pressure),
            ),
            runners_up=choice.runners_up,
            refused=tuple((r, choice.refused[r]) for r in Reason if choice.refused[r]),
            answer_age_s=search.forecast.answer_age_s,
        )


def _worst_of_job(candidates: tuple[Candidate, ...]) -> Estimate | None:
    mine = [c.colocation.job_slowdown for c in candidates if c.colocation.job_slowdown]
    return max(mine, key=lambda estimate: estimate.value, default=None)


def _neighbours(
    candidates: tuple[Candidate, ...],
) -> tuple[tuple[str, Estimate | None], ...]:
    """Return every resident once, with the worst that is predicted for it."""
    worst: dict[str, Estimate | None] = {}
    for candidate in candidates:
        by_key = sorted(candidate.card.residents, key=lambda resident: resident.job_key)
        estimates = candidate.colocation.neighbour_slowdowns
        for resident, estimate in zip_longest(by_key, estimates):
            known = worst.get(resident.job_id)
            if known is None or (estimate is not None and estimate.value > known.value):
                worst[resident.job_id] = estimate
    return tuple(worst.items())


def _reason(candidates: tuple[Candidate, ...]) -> str:
    keys = sorted({r.job_key for candidate in candidates for r in candidate.card.residents})
    return f"beside {', '.join(keys)}" if keys else "alone"


def _order(view: ClusterView, predictions: Predictions, rules: PolicyRules) -> Order:
    if rules.levels is not None:
        return ServiceOrder(view, predictions, rules.levels)
    return FairOrder(view, predictions, rules.ageing) if rules.order == "fair" else FifoOrder(view)


def _hold_order(kept: Reservation) -> tuple[bool, float, str]:
    return not kept.card_ids, kept.since_time, kept.job_id
