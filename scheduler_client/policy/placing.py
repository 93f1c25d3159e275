"""One job against all cards: filter, score, tolerance, and the best set of cards for its gang."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from data.domain import JobRequest
from scheduler_client.policy.decisions import Evidence, Reason, Waiting
from scheduler_client.policy.filtering import (
    Demand,
    largest_mem_mib,
    needed_mem_mib,
    refusal,
    reserved_mem_mib,
)
from scheduler_client.policy.ledger import Ledger, added
from scheduler_client.policy.predictions import UNPREDICTED, CardClass, JobForecast
from scheduler_client.policy.quota import QuotaCheck
from scheduler_client.policy.scoring import (
    Bound,
    Candidate,
    Score,
    ScoreWeights,
    score,
    worst_slowdown,
)
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
    """

    max_jobs_per_card: int
    asks: bool
    tolerance: float
    bound: Bound = Bound.UPPER
    weights: ScoreWeights = field(default_factory=ScoreWeights)
    gang_waits: bool = False


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
class _Search:
    """One job's turn: what it asks, what is predicted for it, and the cards as they are now."""

    job: JobRequest
    demand: Demand
    forecast: JobForecast
    ledger: Ledger
    quota: QuotaCheck
    rules: PlacingRules


def place(
    pending: PendingJob,
    forecast: JobForecast,
    ledger: Ledger,
    quota: QuotaCheck,
    rules: PlacingRules,
) -> Placed | Waiting:
    """Return the best cards for one job, all or none of them, or why there are not enough.

    Parameters
    ----------
    ledger : Ledger
        The cards as this cycle has left them; not changed.
    quota : QuotaCheck
        Of the job's queue.
    """
    demand = _demand(pending, forecast, ledger, rules.max_jobs_per_card)
    search = _Search(pending.job, demand, forecast, ledger, quota, rules)
    refused: Counter[Reason] = Counter()
    candidates = []
    for card in ledger.cards.values():
        answer = _candidate(card, search)
        if isinstance(answer, Reason):
            refused[answer] += 1
        else:
            candidates.append(answer)
    return _best_gang(candidates, search) or _waiting(search, len(candidates), refused)


def _demand(
    pending: PendingJob, forecast: JobForecast, ledger: Ledger, max_jobs_per_card: int
) -> Demand:
    cards = ledger.cards.values()
    largest_mib = largest_mem_mib(cards, pending.gpu_model)
    need = {
        model: needed_mem_mib(pending.job, forecast.memory.get(model), largest_mib)
        for model in {card.gpu_model for card in cards}
    }
    return Demand(pending.gpu_model, need, max_jobs_per_card)


def _candidate(card: CardState, search: _Search) -> Candidate | Reason:
    rules = search.rules
    reason = refusal(card, search.demand)
    if reason is not None:
        return reason
    if not search.quota.allows(search.ledger.changes(search.job.queue, card)):
        return Reason.QUOTA
    mem_mib = reserved_mem_mib(card, search.demand.mem_mib[card.gpu_model])
    if not rules.asks:
        return Candidate(card, mem_mib, UNPREDICTED)
    predicted = search.forecast.colocation(CardClass.of(card.gpu_model, card.residents))
    if predicted is None:
        return Reason.NO_PREDICTION
    tolerated = worst_slowdown(predicted, rules.bound) <= rules.tolerance
    return Candidate(card, mem_mib, predicted) if tolerated else Reason.TOLERANCE


def _best_gang(candidates: Sequence[Candidate], search: _Search) -> Placed | None:
    """Return the job's best cards, all of one model; None where no model has enough."""
    rules = search.rules
    by_model: dict[str, list[tuple[Score, Candidate]]] = {}
    for candidate in candidates:
        graded = score(candidate, rules.bound, rules.weights, gang_waits=rules.gang_waits)
        by_model.setdefault(candidate.card.gpu_model, []).append((graded, candidate))
    gangs = []
    for graded_cards in by_model.values():
        graded_cards.sort(key=lambda pair: (-pair[0].total, pair[1].card.card_id))
        gang = _first_within_quota(graded_cards, search)
        if gang is not None:
            gangs.append(gang)
    return max(gangs, key=_gang_rank, default=None)


def _first_within_quota(
    graded_cards: Sequence[tuple[Score, Candidate]], search: _Search
) -> Placed | None:
    """Return the first cards that the quota allows together; None where they are too few."""
    changes: dict[str, float] = {}
    chosen: list[tuple[Score, Candidate]] = []
    for graded, candidate in graded_cards:
        together = added(changes, search.ledger.changes(search.job.queue, candidate.card))
        if search.quota.allows(together):
            changes = together
            chosen.append((graded, candidate))
        if len(chosen) == search.job.gpus:
            return Placed(tuple(c for _, c in chosen), tuple(s for s, _ in chosen), changes)
    return None


def _gang_rank(gang: Placed) -> tuple[float, str]:
    return sum(score.total for score in gang.scores), gang.candidates[0].card.gpu_model


def _waiting(search: _Search, fitting: int, refused: Counter[Reason]) -> Waiting:
    """Return the refusal of the cards that came nearest, with the counts of all."""
    order = list(Reason)
    reason = max(refused, key=order.index, default=Reason.HEALTH)
    if fitting:  # enough of them, then, were they not too many for the quota together
        reason = Reason.QUOTA if fitting >= search.job.gpus else Reason.GANG
    counts = tuple((f"cards_{name}", float(refused[name])) for name in order if refused[name])
    asked: Evidence = (("gpus", float(search.job.gpus)), ("cards_fitting", float(fitting)))
    return Waiting(search.job.job_id, reason, asked + counts + _numbers(reason, search))


def _numbers(reason: Reason, search: _Search) -> Evidence:
    """Return what was wanted and what was found, for the reasons that are about a number."""
    if reason is Reason.MEMORY:
        needs = [need for need in search.demand.mem_mib.values() if need is not None]
        best_mib = max((card.free_mem_mib for card in search.ledger.cards.values()), default=0)
        wanted = (("needed_mem_mib", float(min(needs))),) if needs else ()
        return (*wanted, ("best_free_mem_mib", float(best_mib)))
    if reason is Reason.TOLERANCE:
        return (("tolerance", search.rules.tolerance), ("least_slowdown", _least(search)))
    if reason is Reason.QUOTA:
        held = search.ledger.held_by_queue.get(search.job.queue, 0.0)
        return (("held_gpus", held), ("most_gpus", search.quota.most_gpus))
    return ()


def _least(search: _Search) -> float:
    """Return the smallest slowdown that sharing any of the cards there are would cause."""
    cards = search.ledger.cards.values()
    classes = {CardClass.of(card.gpu_model, card.residents) for card in cards}
    found = (search.forecast.colocation(c) for c in classes if c.resident_keys)
    return min(worst_slowdown(colocation, search.rules.bound) for colocation in found if colocation)
