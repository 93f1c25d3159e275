"""When a waiting job will start, by what is predicted of the jobs before it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from math import inf

from data.domain import Estimate
from scheduler_client.policy.decisions import Reason, Waiting
from scheduler_client.policy.predictions import NO_FORECAST, Predictions
from scheduler_client.policy.view import ClusterView, PendingJob, RunningJob

HOPELESS = (Reason.IMPOSSIBLE, Reason.UNKNOWN_QUEUE, Reason.HELD)
"""Reasons that no end of another job does away with."""

UNKNOWN_S = 3600.0
"""Taken for the runtime of a job of which nothing is known; its interval is open above."""


@dataclass(frozen=True, slots=True)
class WaitEstimate:
    """Seconds from now until a job starts.

    Attributes
    ----------
    value_s, lower_s, upper_s : float
        With jobs before it as long as predicted, at their lower, and at their upper end;
        `upper_s` is infinite where one of them may run for ever. Or the ends as past waits have
        them.
    jobs_before : int
        Waiting jobs that had their turn before it.
    calibrated_on : int
        Past waits that the interval rests on (see ``wait_correction``); 0: on none.
    """

    value_s: float
    lower_s: float
    upper_s: float
    jobs_before: int
    calibrated_on: int = 0


@dataclass(frozen=True, slots=True)
class _Span:
    """A duration at one end of its interval, by job."""

    end: str

    def remaining_s(self, job: RunningJob, now: float) -> float:
        elapsed_s = max(0.0, now - job.start_time)
        whole_s = self._whole_s(job.runtime, job.limit_s)
        if whole_s > elapsed_s:
            return whole_s - elapsed_s
        return 0.0 if self.end == "lower" else elapsed_s  # overdue: as long again

    def runtime_s(self, pending: PendingJob, runtime: Estimate | None) -> float:
        return max(0.0, self._whole_s(runtime, pending.job.limit_s) - pending.job.elapsed_s)

    def _whole_s(self, runtime: Estimate | None, limit_s: float | None) -> float:
        most_s = inf if limit_s is None else limit_s
        if runtime is not None:
            found: float = getattr(runtime, self.end)
            return min(found, most_s)
        unknown_s = {"lower": 0.0, "value": UNKNOWN_S, "upper": inf}[self.end]
        return min(unknown_s, most_s)


def wait_estimate(
    waiting: Sequence[Waiting], job_id: str, view: ClusterView, predictions: Predictions
) -> WaitEstimate | None:
    """Return when a job will start; None where it never will as things are. See `wait_estimates`.

    Parameters
    ----------
    waiting : sequence of Waiting
        In the order of their turns.
    """
    upto = []
    for one in waiting:
        upto.append(one)
        if one.job_id == job_id:
            break
    return wait_estimates(upto, view, predictions).get(job_id)


def wait_estimates(
    waiting: Sequence[Waiting], view: ClusterView, predictions: Predictions
) -> dict[str, WaitEstimate]:
    """Return when each waiting job will start, by job id; left out is who never will as it is.

    The waiting jobs get cards in the order of this cycle's turns, as cards come free, each for
    as long as is predicted. Left out is what nobody knows, or is decided later: new jobs, other
    turns, cards that are shared meanwhile (which lets it start sooner) and limits of quota
    (which may hold it up).

    Parameters
    ----------
    waiting : sequence of Waiting
        In the order of their turns.
    """
    pending = {one.job.job_id: one for one in view.pending}
    queue = [pending[one.job_id] for one in waiting if one.reason not in HOPELESS]
    ends = [_starts_s(queue, view, predictions, _Span(end)) for end in ("lower", "value", "upper")]
    return {
        one.job.job_id: WaitEstimate(
            max(lower, min(value, upper)), lower, max(value, upper), before
        )
        for before, (one, lower, value, upper) in enumerate(zip(queue, *ends, strict=False))
    }


def _starts_s(
    queue: Sequence[PendingJob], view: ClusterView, predictions: Predictions, span: _Span
) -> list[float]:
    """Return after how long each of `queue` gets its cards, up to the first that never does."""
    free, ends = _cards_free(view, span)
    now_s, starts_s = 0.0, list[float]()
    for pending in queue:
        job = pending.job
        model = pending.gpu_model or max(free, key=lambda m: (free[m], m), default="")
        while free.get(model, 0) < job.gpus:
            if not ends:
                return starts_s
            now_s, freed = heappop(ends)
            free[freed] += 1
            if pending.gpu_model is None:
                model = max(free, key=lambda m: (free[m], m))
        free[model] -= job.gpus
        starts_s.append(now_s)
        runtime = predictions.get(job.job_id, NO_FORECAST).runtime
        for _ in range(job.gpus):
            heappush(ends, (now_s + span.runtime_s(pending, runtime), model))
    return starts_s


def _cards_free(view: ClusterView, span: _Span) -> tuple[dict[str, int], list[tuple[float, str]]]:
    """Return the empty cards of each model, and when each other card comes free (s from now)."""
    running = {job.job_id: job for job in view.running}
    free: dict[str, int] = {}
    ends: list[tuple[float, str]] = []
    for card in view.cards:
        if not card.is_healthy:
            continue
        free.setdefault(card.gpu_model, 0)
        if card.residents:
            ids = (resident.job_id for resident in card.residents)
            ends.append((_latest_s(ids, running, view.now, span), card.gpu_model))
        else:
            free[card.gpu_model] += 1
    heapify(ends)
    return free, ends


def _latest_s(
    job_ids: Iterable[str], running: Mapping[str, RunningJob], now: float, span: _Span
) -> float:
    found = (
        span.remaining_s(running[job_id], now) if job_id in running else inf for job_id in job_ids
    )
    return max(found)
