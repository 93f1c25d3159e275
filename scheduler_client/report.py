"""What one run of the scheduler did, as one JSON document for other programs."""

import json
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from data.domain import Segment
from data.errors import SpoolError
from data.wire import Json, to_json
from scheduler_client.jobs.placement_note import read_note
from scheduler_client.jobs.spool import Attempt
from scheduler_client.policy.decisions import Level
from scheduler_client.policy.explain import explanation
from scheduler_client.policy.view import CardState
from scheduler_client.run import RunEnd


@dataclass(frozen=True, slots=True)
class RunFacts:
    """A run as a whole; times in seconds since 1970, UTC."""

    policy: str
    started_time: float
    finished_time: float
    cards: tuple[CardState, ...]


def report_document(facts: RunFacts, attempts: Sequence[Attempt], end: RunEnd) -> Json:
    """Return the report; its keys are documented in ``docs/scheduling.md``."""
    jobs = [job_row(attempt) for attempt in attempts]
    levels = Counter(str(row["level"]) for row in jobs)
    return {
        "policy": facts.policy,
        "started_time": facts.started_time,
        "finished_time": facts.finished_time,
        "cards": [_card_row(card) for card in facts.cards],
        "jobs": list(jobs),
        "levels": dict(sorted(levels.items())),
        "left": {
            "pending": end.pending,
            "undelivered": end.undelivered,
            "refused": end.refused,
        },
        "waiting": _waiting_rows(end),
    }


def job_row(attempt: Attempt) -> dict[str, Json]:
    """Return one attempt as a row: what happened, and what had been decided and predicted."""
    finished, note = attempt.finished, read_note(attempt.placement)
    segments = [to_json(segment) for segment in finished.segments]
    cards = list(note.card_ids) if note else _card_ids(finished.segments)
    slowdown = note.slowdown if note else None
    return {
        "job_id": finished.job_id,
        "attempt": finished.attempt,
        "user": finished.user,
        "queue": finished.queue,
        "job_key": finished.job_key,
        "gpus": finished.gpus,
        "submit_time": finished.submit_time,
        "start_time": finished.start_time,
        "finish_time": finished.finish_time,
        "outcome": finished.outcome,
        "card_id": cards[0] if cards else None,
        "card_ids": list(cards),
        "segments": list(segments),
        "predicted_slowdown": finished.predicted_slowdown,
        "predicted_slowdown_lower": slowdown.lower if slowdown else None,
        "predicted_slowdown_upper": slowdown.upper if slowdown else None,
        "predicted_runtime_s": finished.predicted_runtime_s,
        "prediction_source": finished.prediction_source,
        "level": note.level if note else Level.NONE,
        "answer_age_s": note.answer_age_s if note else None,
        "model_version": finished.model_version,
        "reason": note.reason if note else None,
        "is_guaranteed": note.is_guaranteed if note else None,
        "neighbour_keys": list(note.neighbour_keys) if note else [],
        "joined": [to_json(joined) for joined in note.joined] if note else [],
        "policy": note.policy if note else None,
    }


def write_report(path: Path, document: Json) -> None:
    """Write a report as a whole: whoever reads the file never sees a part of it.

    Raises
    ------
    SpoolError
        If the file cannot be written.
    """
    beside = path.with_name(path.name + ".part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with beside.open("w", encoding="utf-8") as file:
            json.dump(document, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except OSError as error:
        raise SpoolError(f"report {path}: cannot be written: {error.strerror}") from error


def _card_ids(segments: Iterable[Segment]) -> list[str]:
    return list(dict.fromkeys(segment.card_id for segment in segments))


def _card_row(card: CardState) -> Json:
    return {
        "card_id": card.card_id,
        "gpu_model": card.gpu_model,
        "total_mem_mib": card.total_mem_mib,
    }


def _waiting_rows(end: RunEnd) -> list[Json]:
    return [
        {"job_id": waiting.job_id, "reason": waiting.reason, "why": explanation(waiting)}
        for waiting in end.waiting
    ]
