"""One job against all cards: filter, score, tolerance, and the best set of cards for its gang."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf

from data.domain import JobRequest
from scheduler_client.policy.card_groups import CardGroups
from scheduler_client.policy.decisions import Reason
from scheduler_client.policy.filtering import Demand, needed_mem_mib, refusal, reserved_mem_mib
from scheduler_client.policy.holds import Holds
from scheduler_client.policy.ledger import Ledger
from scheduler_client.policy.outlook import Outlook
from scheduler_client.policy.predictions import UNPREDICTED, CardClass, JobForecast
from scheduler_client.policy.scoring import Bound, Candidate, Score, ScoreWeights, worst_slowdown
from scheduler_client.policy.view import CardState, PendingJob


@dataclass(frozen=True, slots=True)
class PlacingRules:
    """What holds for every job of a cycle.

    Attributes
    ----------
    max_jobs_per_card : int
    asks : bool
        Whether a card may be shared only where its slowdowns were predicted and are tolerated.
    tolerance : float
        The largest slowdown that a placement may be predicted to cause.
    bound : Bound
        Which end of a slowdown's interval counts.
    gang_waits : bool
        Whether any pending job needs several cards.
    spared : set of str
        Queues beside whose jobs `spared_tolerance` is the largest, if that is less.
    """

    max_jobs_per_card: int
    asks: bool
    tolerance: float
    bound: Bound = Bound.UPPER
    weights: ScoreWeights = field(default_factory=ScoreWeights)
    gang_waits: bool = False
    spared: frozenset[str] = frozenset()
    spared_tolerance: float = inf


@dataclass(frozen=True, slots=True)
class Placed:
    """The cards that were chosen for a job, best first, with their scores.

    Attributes
    ----------
    changes : mapping of str to float
        How much more each queue will hold.
    """

    candidates: tuple[Candidate, ...]
    scores: tuple[Score, ...]
    changes: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Board:
    """The cards as a cycle has left them: one by one, in groups, and what is kept for whom."""

    ledger: Ledger
    groups: CardGroups
    holds: Holds


@dataclass(frozen=True, slots=True)
class Search:
    """One job's turn: what it asks, and what is predicted for it.

    Attributes
    ----------
    outlook : Outlook
        The forecast's colocations by number of card class.
    """

    pending: PendingJob
    demand: Demand
    forecast: JobForecast
    outlook: Outlook
    board: Board
    rules: PlacingRules

    @property
    def job(self) -> JobRequest:
        """What was requested."""
        return self.pending.job


def demand_of(
    pending: PendingJob,
    forecast: JobForecast,
    largest_mib: Mapping[str, int],
    max_jobs_per_card: int,
) -> Demand:
    """Return what a job asks of each of its cards.

    Parameters
    ----------
    largest_mib : mapping of str to int
        Total memory of the largest card of each GPU model.
    """
    wanted = pending.gpu_model
    most_mib = max(largest_mib.values(), default=0)
    if wanted is not None:
        most_mib = largest_mib.get(wanted, 0)
    need = {
        model: needed_mem_mib(pending.job, forecast.memory.get(model), most_mib)
        for model in largest_mib
    }
    return Demand(wanted, need, max_jobs_per_card)


def judged(card: CardState, search: Search, *, is_quota_free: bool = False) -> Candidate | Reason:
    """Return what would happen on one card, or why it will not do.

    This is the rule; `best_cards` follows it for all cards at once.

    Parameters
    ----------
    is_quota_free : bool
        Leave the quota aside.
    """
    rules, board, queue = search.rules, search.board, search.job.queue
    reason = refusal(card, search.demand)
    if reason is not None:
        return reason
    if not (is_quota_free or board.ledger.book.allows(queue, board.ledger.changes(queue, card))):
        return Reason.QUOTA
    mem_mib = reserved_mem_mib(card, search.demand.mem_mib[card.gpu_model])
    candidate = Candidate(card, mem_mib, UNPREDICTED)
    if rules.asks:
        predicted = search.forecast.colocation(CardClass.of(card.gpu_model, card.residents))
        if predicted is None:
            return Reason.NO_PREDICTION
        if worst_slowdown(predicted, rules.bound) > _tolerance(card, search):
            return Reason.TOLERANCE
        candidate = Candidate(card, mem_mib, predicted)
    if not board.holds.lets(search.job.job_id, card.card_id):
        return Reason.RESERVED
    return candidate


def _tolerance(card: CardState, search: Search) -> float:
    rules = search.rules
    if rules.spared and not rules.spared.isdisjoint(search.board.ledger.owners(card)):
        return min(rules.tolerance, rules.spared_tolerance)
    return rules.tolerance


def refusals(search: Search) -> Counter[Reason]:
    """Return how many cards fail by themselves: by health, by model, for want of room."""
    groups, wanted = search.board.groups, search.demand.gpu_model
    usable = groups.healthy if wanted is None else {wanted: groups.healthy[wanted]}
    full = sum(groups.full[model] for model in usable)
    others = sum(groups.healthy.values()) - sum(usable.values())
    found = {
        Reason.HEALTH: groups.unhealthy,
        Reason.GPU_MODEL: others,
        Reason.CARD_FULL: full,
    }
    return Counter({reason: count for reason, count in found.items() if count})
