"""One cycle: order, quota, filter, score, tolerance, admissions. Same view, same answer."""

from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Literal

from data.domain import Estimate
from scheduler_client.policy.card_groups import CardGroups
from scheduler_client.policy.choosing import best_cards
from scheduler_client.policy.decisions import Admission, Decision, Level, Reason, Waiting
from scheduler_client.policy.filtering import Capacity
from scheduler_client.policy.holds import Holds
from scheduler_client.policy.ledger import Ledger
from scheduler_client.policy.outlook import Outlooks
from scheduler_client.policy.placing import Board, Placed, PlacingRules, Search, demand_of
from scheduler_client.policy.predictions import NO_FORECAST, JobForecast, Predictions
from scheduler_client.policy.queue_order import Ageing, FairOrder, FifoOrder, Order
from scheduler_client.policy.quota import is_guaranteed
from scheduler_client.policy.scoring import Bound, Candidate, ScoreWeights, worst_slowdown
from scheduler_client.policy.tolerance import ToleranceRule, tolerance
from scheduler_client.policy.view import ClusterView, PendingJob, Queue, pressure
from scheduler_client.policy.waiting import waiting


@dataclass(frozen=True, slots=True)
class PolicyRules:
    """Everything a list policy is made of; the defaults are those of ``colocate``.

    Attributes
    ----------
    order : {"fair", "fifo"}
    max_jobs_per_card : int
        At least 1; 1 never shares.
    asks : bool
        Whether cards are shared by prediction; otherwise wherever count and memory allow.
    """

    order: Literal["fair", "fifo"] = "fair"
    max_jobs_per_card: int = 2
    asks: bool = True
    bound: Bound = Bound.UPPER
    ageing: Ageing = field(default_factory=Ageing)
    tolerance: ToleranceRule = field(default_factory=ToleranceRule)
    weights: ScoreWeights = field(default_factory=ScoreWeights)


def decide(view: ClusterView, predictions: Predictions, rules: PolicyRules) -> Decision:
    """Choose what starts now, from the view and the predictions alone.

    Every pending job gets its turn once; one that cannot start is passed by those behind it
    (Kueue's ``BestEffortFIFO``).

    Returns
    -------
    Decision
        Admissions in starting order; every other pending job with the reason why it waits.
    """
    cycle = _Cycle(view, predictions, rules)
    admissions: list[Admission] = []
    waiting: list[Waiting] = []
    while (pending := cycle.order.next(cycle.ledger)) is not None:
        answer = cycle.answer(pending)
        if isinstance(answer, Admission):
            admissions.append(answer)
            cycle.admit(pending, answer)
        else:
            waiting.append(answer)
    return Decision(tuple(admissions), tuple(waiting))


class _Cycle:
    """What one call of `decide` holds while it goes through the jobs."""

    def __init__(self, view: ClusterView, predictions: Predictions, rules: PolicyRules) -> None:
        self.view, self.predictions, self.rules = view, predictions, rules
        self.queues = {queue.name: queue for queue in view.queues}
        self.pressure = pressure(view)
        self.capacity = Capacity(view.cards)
        self.order: Order = (
            FairOrder(view, predictions, rules.ageing) if rules.order == "fair" else FifoOrder(view)
        )
        self.placing = PlacingRules(
            max_jobs_per_card=rules.max_jobs_per_card,
            asks=rules.asks,
            tolerance=tolerance(self.pressure, rules.tolerance),
            bound=rules.bound,
            weights=rules.weights,
            gang_waits=any(pending.job.gpus > 1 for pending in view.pending),
        )
        ledger, holds = Ledger(view), Holds()
        groups = CardGroups(view.cards, ledger.owners, rules.max_jobs_per_card, holds.numbers)
        self.ledger, self.board = ledger, Board(ledger, groups, holds)
        self.outlooks = Outlooks(rules.bound, groups.card_classes)

    def search(self, pending: PendingJob) -> Search:
        """Return what a job's turn is about."""
        forecast = self.predictions.get(pending.job.job_id, NO_FORECAST)
        most = self.rules.max_jobs_per_card
        return Search(
            pending=pending,
            demand=demand_of(pending, forecast, self.capacity.largest_mib, most),
            forecast=forecast,
            outlook=self.outlooks.of(forecast.colocations),
            board=self.board,
            rules=self.placing,
        )

    def answer(self, pending: PendingJob) -> Admission | Waiting:
        """Return what becomes of a job now."""
        job = pending.job
        queue = self.queues.get(job.queue)
        if queue is None:
            return Waiting(job.job_id, Reason.UNKNOWN_QUEUE)
        if queue.is_held:
            return Waiting(job.job_id, Reason.HELD)
        if self.capacity.is_impossible(pending):
            return Waiting(job.job_id, Reason.IMPOSSIBLE, (("gpus", float(job.gpus)),))
        search = self.search(pending)
        choice = best_cards(search)
        if choice.placed is None:
            return waiting(search, choice, queue)
        return self._admission(pending, queue, search.forecast, choice.placed)

    def admit(self, pending: PendingJob, admission: Admission) -> None:
        """Put an admitted job on its cards."""
        before = [self.ledger.cards[card_id] for card_id in admission.card_ids]
        self.ledger.admit(pending.job, admission.card_ids, admission.mem_mib)
        for card in before:
            self.board.groups.replace(card, self.ledger.cards[card.card_id])

    def _admission(
        self, pending: PendingJob, queue: Queue, forecast: JobForecast, placed: Placed
    ) -> Admission:
        candidates = placed.candidates
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
            level=forecast.level if self.rules.asks else Level.NONE,
            reason=_reason(candidates),
            evidence=(
                ("score", placed.scores[0].total),
                *placed.scores[0].terms,
                ("worst_slowdown", worst),
                ("tolerance", self.placing.tolerance),
                ("pressure", self.pressure),
            ),
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
