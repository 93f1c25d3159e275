"""Cards kept for jobs that would otherwise be passed for ever, and who may use them meanwhile."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from scheduler_client.policy.decisions import Reason
from scheduler_client.policy.filtering import Demand
from scheduler_client.policy.holds import Hold, Holds
from scheduler_client.policy.predictions import NO_FORECAST, Predictions
from scheduler_client.policy.view import (
    CardState,
    ClusterView,
    PendingJob,
    Reservation,
    RunningJob,
)

FOR_WANT_OF_CARDS = (
    Reason.CARD_FULL,
    Reason.MEMORY,
    Reason.NO_PREDICTION,
    Reason.TOLERANCE,
    Reason.RESERVED,
    Reason.GANG,
)
"""Reasons that more free cards would do away with."""


@dataclass(frozen=True, slots=True)
class ReservationRules:
    """When cards are kept for a job.

    Attributes
    ----------
    after_s : float
        A job that has waited so long, and whose turn came first of all that want cards, gets a
        reservation.
    """

    after_s: float = 300.0


@dataclass(frozen=True, slots=True)
class Wanted:
    """A reservation with what its job asks of each card."""

    reservation: Reservation
    pending: PendingJob
    demand: Demand

    @property
    def is_fixed(self) -> bool:
        """Whether it is of cards that were freed by evictions."""
        return bool(self.reservation.card_ids)


def holds_of(wanted: Iterable[Wanted], view: ClusterView, latest_end: Mapping[str, float]) -> Holds:
    """Return which cards are kept for whom now.

    Where evictions have freed cards, those; otherwise as many as the job needs, empty ones
    first, then those that are expected to come free first. So the empty ones become more with
    every job that ends, and only jobs that end in time may use them meanwhile.

    Parameters
    ----------
    latest_end : mapping of str to float
        See `Holds`.

    Notes
    -----
    One reservation and backfill beside it: Lifka, "The ANL/IBM SP scheduling system", JSSPP
    1995 (EASY), with the lower end of predicted runtimes for when cards come free.
    """
    running = {job.job_id: job for job in view.running}
    holds: list[Hold] = []
    taken: set[str] = set()
    for one in wanted:
        fixed = tuple(c for c in one.reservation.card_ids if c not in taken)
        cards = [card for card in view.cards if card.card_id not in taken]
        hold = Hold(one.pending.job.job_id, fixed) if fixed else _soonest(one, cards, running, view)
        if hold is not None:
            taken |= set(hold.card_ids)
            holds.append(hold)
    return Holds(tuple(holds), latest_end)


def latest_ends(
    pending: Iterable[PendingJob], predictions: Predictions, now: float, tolerance: float
) -> dict[str, float]:
    """Return by when each pending job would surely have ended if it started now.

    Its limit is enforced; without one the upper end of its predicted runtime counts, slowed down
    as much as is tolerated. A job of which neither is known is left out.
    """
    ends = {}
    for one in pending:
        runtime = predictions.get(one.job.job_id, NO_FORECAST).runtime
        known = [] if one.job.limit_s is None else [one.job.limit_s]
        if runtime is not None and runtime.in_domain:
            known.append(runtime.upper * tolerance)
        if known:
            ends[one.job.job_id] = now + min(known)
    return ends


def _soonest(
    wanted: Wanted,
    cards: Iterable[CardState],
    running: Mapping[str, RunningJob],
    view: ClusterView,
) -> Hold | None:
    """Return the cards of one model that come free first; None where there are too few."""
    by_model: dict[str, list[tuple[float, str, CardState]]] = {}
    for card in cards:
        need = wanted.demand.mem_mib.get(card.gpu_model)
        fits = need is None or need <= card.total_mem_mib
        if card.is_healthy and fits and wanted.demand.gpu_model in (None, card.gpu_model):
            row = (_free_time(card, running, view.now), card.card_id, card)
            by_model.setdefault(card.gpu_model, []).append(row)
    gpus, found = wanted.pending.job.gpus, []
    for model, rows in by_model.items():
        if len(rows) >= gpus:
            first = sorted(rows, key=lambda row: row[:2])[:gpus]
            found.append((first[-1][0], model, first))
    if not found:
        return None
    _, _, chosen = min(found, key=lambda option: option[:2])
    ready = max(_earliest_time(card, running, view.now) for _, _, card in chosen)
    return Hold(wanted.pending.job.job_id, tuple(card_id for _, card_id, _ in chosen), ready)


def _free_time(card: CardState, running: Mapping[str, RunningJob], now: float) -> float:
    """Return when a card is expected to be empty."""
    ends = (_expected_end(running.get(r.job_id), now) for r in card.residents)
    return max(ends, default=now)


def _expected_end(job: RunningJob | None, now: float) -> float:
    if job is None:
        return float("inf")
    elapsed_s = max(0.0, now - job.start_time)
    left_s = elapsed_s  # of whom nothing is known: as long again
    if job.runtime is not None and job.runtime.value > elapsed_s:
        left_s = job.runtime.value - elapsed_s
    if job.limit_s is not None:
        left_s = min(left_s, max(0.0, job.limit_s - elapsed_s))
    return now + left_s


def _earliest_time(card: CardState, running: Mapping[str, RunningJob], now: float) -> float:
    """Return the moment before which a card will hardly be empty."""
    ends = [now]
    for resident in card.residents:
        job = running.get(resident.job_id)
        if job is not None and job.runtime is not None:
            ends.append(job.start_time + job.runtime.lower)
    return max(ends)
