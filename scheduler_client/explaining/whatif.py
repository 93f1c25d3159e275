"""What would happen to a job that has not been submitted, and through it to others."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from data.wire import Json
from scheduler_client.explaining.documents import (
    admission_document,
    wait_document,
    waiting_document,
)
from scheduler_client.explaining.wait import WaitEstimate, wait_estimate
from scheduler_client.policy.decisions import Decision
from scheduler_client.policy.policies import Policy
from scheduler_client.policy.predictions import NO_FORECAST, Predictions
from scheduler_client.policy.view import ClusterView, PendingJob

Correct = Callable[[WaitEstimate, str, float], WaitEstimate]
"""Estimate, job id and moment to what the past makes of it, as ``WaitBook.corrected``."""


@dataclass(frozen=True, slots=True)
class Imagined:
    """A view in which one more job waits, and what is predicted in it."""

    view: ClusterView
    pending: PendingJob
    predictions: Predictions


def imagined_view(view: ClusterView, pending: PendingJob) -> ClusterView:
    """Return `view` as it would be had the job just been submitted."""
    return replace(view, pending=(*view.pending, pending))


def whatif_document(imagined: Imagined, policy: Policy, correct: Correct) -> dict[str, Json]:
    """Return where a job would run and when, how slow, and what it would do to others.

    The policy decides twice, with the job and without it; nothing else is different.
    """
    job_id = imagined.pending.job.job_id
    view = imagined.view
    without = replace(view, pending=tuple(p for p in view.pending if p.job.job_id != job_id))
    before = policy.decide(without, imagined.predictions)
    after = policy.decide(view, imagined.predictions)
    admission = next((a for a in after.admissions if a.job_id == job_id), None)
    waiting = next((w for w in after.waiting if w.job_id == job_id), None)
    wait = wait_estimate(after.waiting, job_id, view, imagined.predictions)
    wait = None if wait is None else correct(wait, job_id, view.now)
    runtime = imagined.predictions.get(job_id, NO_FORECAST).runtime
    slowdown = None if admission is None else admission.slowdown
    return {
        "starts_now": admission is not None,
        "placement": None if admission is None else admission_document(admission),
        "waiting": None if waiting is None else waiting_document(waiting),
        "wait": wait_document(wait),
        "runtime_s": None
        if runtime is None
        else {
            "value": runtime.value * (1.0 if slowdown is None else slowdown.value),
            "lower": runtime.lower,
            "upper": runtime.upper * (1.0 if slowdown is None else slowdown.upper),
        },
        "others": {
            "slowed_down": [] if admission is None else admission_document(admission)["neighbours"],
            "would_wait": [*sorted(_started(before) - _started(after))],
            "moved": [*sorted(_moved(before, after))],
            "evicted": [
                victim
                for eviction in after.evictions
                if eviction.job_id == job_id
                for victim in eviction.victims
            ],
        },
    }


def _started(decision: Decision) -> set[str]:
    return {admission.job_id for admission in decision.admissions}


def _moved(before: Decision, after: Decision) -> set[str]:
    cards = {admission.job_id: admission.card_ids for admission in before.admissions}
    return {a.job_id for a in after.admissions if cards.get(a.job_id, a.card_ids) != a.card_ids}
