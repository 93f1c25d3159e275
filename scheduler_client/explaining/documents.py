"""Answers as JSON, and the same as text for people."""

from collections.abc import Sequence
from math import isfinite

from data.domain import Estimate
from data.wire import Json, to_json
from scheduler_client.explaining.history import PlacedAt, Span
from scheduler_client.explaining.next_steps import next_step
from scheduler_client.explaining.wait import WaitEstimate
from scheduler_client.policy.decisions import Admission, Waiting
from scheduler_client.policy.explain import explanation


def waiting_document(waiting: Waiting) -> dict[str, Json]:
    """Return the dominant reason with its evidence and what would help."""
    return {
        "reason": waiting.reason.value,
        "why": explanation(waiting),
        "evidence": dict(waiting.evidence),
        "next_step": next_step(waiting),
    }


def span_document(span: Span) -> dict[str, Json]:
    """Return one stretch of waiting."""
    return {
        "first_time": span.first_time,
        "last_time": span.last_time,
        "cycles": span.cycles,
        "reason": span.waiting.reason.value,
        "why": explanation(span.waiting),
    }


def wait_document(wait: WaitEstimate | None) -> Json:
    """Return when a job will start; an open upper end is null."""
    if wait is None:
        return None
    return {
        "value_s": _finite(wait.value_s),
        "lower_s": _finite(wait.lower_s),
        "upper_s": _finite(wait.upper_s),
        "jobs_before": wait.jobs_before,
        "calibrated_on": wait.calibrated_on,
    }


def admission_document(admission: Admission) -> dict[str, Json]:
    """Return a placement: its terms, what it was predicted to do, the next best, why not others."""
    return {
        "card_ids": list(admission.card_ids),
        "mem_mib": list(admission.mem_mib),
        "reason": admission.reason,
        "level": admission.level.value,
        "answer_age_s": admission.answer_age_s,
        "is_guaranteed": admission.is_guaranteed,
        "slowdown": _estimate(admission.slowdown),
        "neighbours": [
            {"job_id": job_id, "slowdown": _estimate(estimate)}
            for job_id, estimate in admission.neighbours
        ],
        "terms": dict(admission.evidence),
        "next_best": [
            {
                "card_id": other.card_id,
                "score": other.score,
                "terms": dict(other.terms),
                "beside": list(other.beside),
                "worst_slowdown": other.worst_slowdown,
            }
            for other in admission.runners_up
        ],
        "why_not": {reason.value: cards for reason, cards in admission.refused},
    }


def placed_document(placed: PlacedAt) -> dict[str, Json]:
    """Return a placement with its moment."""
    return {
        "time": placed.time,
        "attempt": placed.admission.attempt,
        **admission_document(placed.admission),
    }


def shown_seconds(value: object) -> str:
    """Return a duration for people.

    Examples
    --------
    >>> shown_seconds(59.6), shown_seconds(5400), shown_seconds(200_000), shown_seconds(None)
    ('60 s', '90 min', '56 h', 'unknown')
    """
    if not isinstance(value, int | float):
        return "unknown"
    if value < 120:
        return f"{value:.0f} s"
    return f"{value / 60:.0f} min" if value < 7200 else f"{value / 3600:.0f} h"


def shown_numbers(numbers: object) -> Sequence[str]:
    """Return named numbers for people, one a line."""
    if not isinstance(numbers, dict):
        return ()
    return [f"{name.replace('_', ' ')}: {value:g}" for name, value in numbers.items()]


def _estimate(estimate: Estimate | None) -> Json:
    return None if estimate is None else to_json(estimate)


def _finite(value: float) -> float | None:
    return value if isfinite(value) else None
