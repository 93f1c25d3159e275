"""Room for jobs that found none: who must end for whom, and which cards are kept for whom."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from math import inf

from scheduler_client.policy.decisions import Eviction, Reason, Waiting
from scheduler_client.policy.eviction_cost import EvictionRules, eviction_costs
from scheduler_client.policy.filtering import reserved_mem_mib
from scheduler_client.policy.giving_way import Field, is_owed, standing_of
from scheduler_client.policy.placing import Search
from scheduler_client.policy.preempting import last_resort, planned_eviction
from scheduler_client.policy.reserving import FOR_WANT_OF_CARDS
from scheduler_client.policy.turns import Turns
from scheduler_client.policy.view import PendingJob, Queue, Reservation, Whom

Waits = Sequence[tuple[PendingJob, Waiting]]
"""Jobs that wait, in the order of their turns."""

MOST_GIVING_WAY = 100
"""To last resorts in a cycle: each victim is a look at others, and the next cycle goes on."""

_Like = tuple[object, ...]
_HELPED = (*FOR_WANT_OF_CARDS, Reason.QUOTA)
"""Reasons for which it helps if others start no more for a while."""


def evictions_for(waits: Waits, turns: Turns) -> tuple[Eviction, ...]:
    """Return who must end for whom; jobs served earlier are taken into account."""
    rules = turns.rules.eviction
    if rules is None or not _has_rights(turns.view.queues):
        return ()
    paper = _Paper(turns, rules)
    helped = (
        pending
        for pending, waiting_ in waits
        if waiting_.reason in _HELPED
        and pending.job.job_id not in turns.freeing
        and not turns.kept_quota.refuses(pending, turns.queues[pending.job.queue])
    )
    found = filter(None, map(paper.eviction, helped))
    return tuple(islice(found, rules.most_per_cycle))


def _has_rights(queues: Iterable[Queue]) -> bool:
    """Return whether any queue may have anybody evicted."""
    rights = {whom for queue in queues for whom in (queue.reclaims, queue.preempts, queue.borrows)}
    return bool(rights - {Whom.NEVER})


class _Paper:
    """The cards as they will be once all victims so far have left, and what was tried in vain."""

    def __init__(self, turns: Turns, rules: EvictionRules) -> None:
        self._turns, self._field = turns, _field(turns, rules)
        self._ledger = turns.ledger.copy()
        self._hopeless: dict[_Like, float] = {}  # since when the one that was tried had waited
        self._last_resorts, self._giving_way = 0, 0
        self._too_many: dict[str, int] = {}  # GPUs, by queue

    def eviction(self, pending: PendingJob) -> Eviction | None:
        """Return who must end for a job, and play it; None where no eviction helps it."""
        turns = self._turns
        search = turns.search(pending)
        like, waits_since = _like(search, turns), turns.history.waits_since(pending.job)
        if like is not None and waits_since >= self._hopeless.get(like, inf):
            return None
        search = replace(search, board=replace(turns.board, ledger=self._ledger))
        eviction = planned_eviction(search, self._field) or self._last_resort(search)
        if eviction is not None:
            self._play(eviction, search)
        elif like is not None:
            self._hopeless[like] = waits_since
        return eviction

    def _last_resort(self, search: Search) -> Eviction | None:
        """Try what takes a look at all cards: a queue's smaller and smaller jobs, not often."""
        job, most = search.job, self._field.rules.most_per_cycle
        if self._last_resorts == most or self._giving_way >= MOST_GIVING_WAY:
            return None
        if job.gpus >= self._too_many.get(job.queue, inf):
            return None
        if not is_owed(search, self._field):
            return None
        self._last_resorts += 1
        found = last_resort(search, self._field)
        if found is None:
            self._too_many[job.queue] = job.gpus
        else:
            self._giving_way += len(found.victims)
        return found

    def _play(self, eviction: Eviction, search: Search) -> None:
        """Put a preemptor where it will be, so that the next one finds its cards taken."""
        ledger, field = self._ledger, self._field
        for victim in eviction.victims:
            ledger.release(field.running[victim])
        need = (
            reserved_mem_mib(card, search.demand.mem_mib[card.gpu_model])
            for card in (ledger.cards[card_id] for card_id in eviction.card_ids)
        )
        ledger.admit(search.job, eviction.card_ids, list(need))
        self._field = replace(
            field,
            spoken_for=field.spoken_for.union(eviction.victims),
            kept_cards=field.kept_cards.union(eviction.card_ids),
        )
        self._hopeless.clear()
        self._too_many.clear()


def _field(turns: Turns, rules: EvictionRules) -> Field:
    view, levels = turns.view, turns.rules.levels
    within_quota = turns.tolerated.within_quota
    return Field(
        queues=turns.queues,
        running=turns.running,
        costs=eviction_costs(view, turns.history),
        history=turns.history,
        rules=rules,
        now=view.now,
        spoken_for=frozenset(job.job_id for job in view.running if job.is_stopping),
        standing=None if levels is None else standing_of(view, levels, within_quota),
        kept_since={w.reservation.job_id: w.reservation.since_time for w in turns.wanted},
        whole_gpus=turns.kept_quota.whole_gpus,
        yielding=turns.yielding,
    )


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
        if wants_cards and has_waited and turns.claims.leave_room_for(job):
            return (Reservation(job.job_id, turns.view.now),)
    return ()


def _is_kept(reservation: Reservation, reasons: Mapping[str, Reason], freeing: set[str]) -> bool:
    """Return whether a job still needs its reservation, and can still use it."""
    reason = reasons.get(reservation.job_id)
    if reservation.card_ids:  # once all victims have left, it has had its turn
        return reason is not None and reservation.job_id in freeing
    return reason in _HELPED
