"""Room for jobs that found none: who must end for whom, and which cards are kept for whom."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import inf

from scheduler_client.policy.decisions import Eviction, Reason, Waiting
from scheduler_client.policy.eviction_cost import eviction_costs
from scheduler_client.policy.filtering import reserved_mem_mib
from scheduler_client.policy.giving_way import Field, standing_of
from scheduler_client.policy.placing import Search
from scheduler_client.policy.preempting import planned_eviction
from scheduler_client.policy.reserving import FOR_WANT_OF_CARDS
from scheduler_client.policy.turns import Turns
from scheduler_client.policy.view import PendingJob, Reservation, Whom

Waits = Sequence[tuple[PendingJob, Waiting]]
"""Jobs that wait, in the order of their turns."""

_Like = tuple[object, ...]
_HELPED = (*FOR_WANT_OF_CARDS, Reason.QUOTA)
"""Reasons for which it helps if others start no more for a while."""


def evictions_for(waits: Waits, turns: Turns) -> tuple[Eviction, ...]:
    """Return who must end for whom; jobs served earlier are taken into account."""
    rules = turns.rules.eviction
    if rules is None or not any(
        whom is not Whom.NEVER
        for queue in turns.view.queues
        for whom in (queue.reclaims, queue.preempts, queue.borrows)
    ):
        return ()
    ledger, freeing, levels = turns.ledger.copy(), turns.freeing, turns.rules.levels
    field = Field(
        queues=turns.queues,
        running={job.job_id: job for job in turns.view.running},
        costs=eviction_costs(turns.view, turns.history),
        history=turns.history,
        rules=rules,
        now=turns.view.now,
        spoken_for=frozenset(j.job_id for j in turns.view.running if j.is_stopping),
        standing=(
            None
            if levels is None
            else standing_of(turns.view, levels, turns.tolerated.within_quota)
        ),
    )
    found: list[Eviction] = []
    hopeless: dict[_Like, float] = {}  # and since when the one that was tried had waited
    for pending, waiting_ in waits:
        if len(found) == rules.most_per_cycle:
            break
        wants_cards = waiting_.reason in _HELPED
        if not wants_cards or pending.job.job_id in freeing:
            continue
        search = turns.search(pending)
        like = _like(search, turns)
        waits_since = turns.history.waits_since(pending.job)
        if like is not None and waits_since >= hopeless.get(like, inf):
            continue
        search = replace(search, board=replace(turns.board, ledger=ledger))
        eviction = planned_eviction(search, field)
        if eviction is None and like is not None:
            hopeless[like] = waits_since
        if eviction is not None:
            hopeless.clear()
            found.append(eviction)
            _play(eviction, search, field)
            field = replace(
                field,
                spoken_for=field.spoken_for.union(eviction.victims),
                kept_cards=field.kept_cards.union(eviction.card_ids),
            )
    return tuple(found)


def _like(search: Search, turns: Turns) -> _Like | None:
    """Return what decides whom a job may evict and where it fits; None where its past does, too.

    Of jobs that are alike in it, one that has waited longer may take back from more (`grace_s`).
    """
    pending, job = search.pending, search.job
    is_known = turns.history.knows(job.job_id) or any(
        wanted.reservation.job_id == job.job_id for wanted in turns.wanted
    )
    if is_known:
        return None
    need = tuple(search.demand.mem_mib.items())
    had = pending.priority, pending.attained_gpu_s
    asked = job.queue, job.user, job.gpus, *had, pending.gpu_model, need
    # By identity: the predictions of a cycle outlive it.
    lets = tuple(turns.holds.open_to(job.job_id))  # who surely ends in time may use kept cards
    return (*asked, lets, search.rules.tolerance, id(search.forecast.colocations))


def _play(eviction: Eviction, search: Search, field: Field) -> None:
    """Put a preemptor where it will be, so that the next one finds its cards taken."""
    ledger = search.board.ledger
    for victim in eviction.victims:
        ledger.release(field.running[victim])
    need = (
        reserved_mem_mib(card, search.demand.mem_mib[card.gpu_model])
        for card in (ledger.cards[card_id] for card_id in eviction.card_ids)
    )
    ledger.admit(search.job, eviction.card_ids, list(need))


def reservations_after(
    waits: Waits, evictions: Sequence[Eviction], turns: Turns
) -> tuple[Reservation, ...]:
    """Return what is kept for whom in the next cycle."""
    now, freeing = turns.view.now, turns.freeing
    fresh = tuple(Reservation(e.job_id, now, e.card_ids, e.victims) for e in evictions)
    served = {reservation.job_id for reservation in fresh}
    reasons = {waiting_.job_id: waiting_.reason for _, waiting_ in waits}
    kept = tuple(
        wanted.reservation
        for wanted in turns.wanted
        if wanted.reservation.job_id not in served
        and _is_kept(wanted.reservation, reasons, freeing)
    )
    if any(not reservation.card_ids for reservation in kept):
        return kept + fresh
    served |= {reservation.job_id for reservation in kept}
    return kept + fresh + _first_of_those_passed(waits, served, turns)


def _first_of_those_passed(waits: Waits, served: set[str], turns: Turns) -> tuple[Reservation, ...]:
    rules, levels = turns.rules.reservation, turns.rules.levels
    if rules is None:
        return ()
    after_s = rules.after_s if levels is None else levels.reserve_after_s
    for pending, waiting_ in waits:
        job = pending.job
        has_waited = turns.view.now - job.submit_time >= after_s
        wants_cards = waiting_.reason in _HELPED and job.job_id not in served
        if wants_cards and has_waited and turns.ledger.book.could_ever_hold(job.queue, job.gpus):
            return (Reservation(job.job_id, turns.view.now),)
    return ()


def _is_kept(reservation: Reservation, reasons: Mapping[str, Reason], freeing: set[str]) -> bool:
    """Return whether a job still needs its reservation, and can still use it."""
    reason = reasons.get(reservation.job_id)
    if reservation.card_ids:  # once all victims have left, it has had its turn
        return reason is not None and reservation.job_id in freeing
    return reason in _HELPED
