"""What a finished job must satisfy, and its JSON form; the edge of the learning loop.

Standard library only, so that the scheduler checks by the same rules as the service and the log.
"""

from collections.abc import Iterator

from data.domain import PROFILE_COLUMNS, RATIO_SIGNALS, FinishedJob, ModelStructure, Segment
from data.errors import WireError, shown
from data.wire import Json, dumps, from_json, loads, to_json

LONGEST_ID = 512  # a PostgreSQL index entry holds 2,704 bytes, a character has up to 4
LARGEST_ATTEMPT = 2**31 - 1
CLOCK_SLACK_S = 1.0  # segments and job may have been timed by different reads of the clock

Rule = tuple[str, object, bool, str]  # field, what was found, whether it holds, what was wanted


def checked_job(job: FinishedJob) -> FinishedJob:
    """Return `job` itself if it can have happened.

    Raises
    ------
    WireError
        An empty or overlong id, a negative amount, moments out of order, a segment outside the
        run, or a signal that is unknown or outside its range. Names the field.

    Examples
    --------
    >>> from data.domain import Outcome
    >>> checked_job(FinishedJob("7", 1, "ada", "q", "bert", 1, 10.0, 9.0, 12.0, Outcome.OK))
    Traceback (most recent call last):
    data.errors.WireError: start_time: found 9.0, wanted submit_time or later
    """
    for field, found, holds, wanted in _rules(job):
        if not holds:
            raise WireError(field, repr(found)[:80], wanted)
    unknown = job.signals.keys() - set(PROFILE_COLUMNS)
    if unknown:
        raise WireError("signals", f"unknown {shown(unknown)}", "names of PROFILE_COLUMNS")
    return job


def finished_to_json(job: FinishedJob) -> dict[str, Json]:
    """Return `job` as a JSON object that holds every field."""
    return to_json(checked_job(job))


def finished_from_json(document: object) -> FinishedJob:
    """Return the finished job that a JSON object describes.

    Raises
    ------
    WireError
        If it has an unknown or missing field, a value of another kind, or breaks a rule of
        `checked_job`.
    """
    return checked_job(from_json(FinishedJob, document))


def finished_to_text(job: FinishedJob) -> str:
    """Return `job` as canonical JSON text: equal jobs have equal texts."""
    return dumps(checked_job(job))


def finished_from_text(text: str | bytes) -> FinishedJob:
    """Return the finished job that `finished_to_text` wrote, or raise as `finished_from_json`."""
    return checked_job(loads(FinishedJob, text))


def _rules(job: FinishedJob) -> Iterator[Rule]:
    sized = 0 < len(job.job_id) <= LONGEST_ID
    yield "job_id", job.job_id, sized, f"a text of 1 to {LONGEST_ID} characters"
    attempts = 0 <= job.attempt <= LARGEST_ATTEMPT
    yield "attempt", job.attempt, attempts, f"a number in [0, {LARGEST_ATTEMPT}]"
    ordered = job.submit_time <= job.start_time
    yield "start_time", job.start_time, ordered, "submit_time or later"
    yield "finish_time", job.finish_time, job.start_time <= job.finish_time, "start_time or later"
    for name in ("gpus", "gpu_mem_mib", "cpus", "mem_mib", "limit_s", "predicted_slowdown"):
        yield from _amount(name, getattr(job, name))
    yield from _amount("predicted_runtime_s", job.predicted_runtime_s)
    if job.structure is not None:
        yield from _structure(job.structure)
    for index, segment in enumerate(job.segments):
        yield from _segment(f"segments[{index}]", segment, job)
    for name, value in job.signals.items():
        yield from _signal(name, value)


def _amount(field: str, amount: float | None, least: int = 0) -> Iterator[Rule]:
    holds = amount is None or amount >= least
    yield field, amount, holds, f"a number in [{least}, inf)"


def _structure(structure: ModelStructure) -> Iterator[Rule]:
    yield from _amount("structure.batch_size", structure.batch_size, 1)
    yield from _amount("structure.gpus", structure.gpus, 1)
    counts = ("embedding_rows", "embedding_width", "embedding_tables", "dense_parameters")
    for name in (*counts, "activations", "largest_activation", "depth", "multiply_adds"):
        yield from _amount(f"structure.{name}", getattr(structure, name))


def _segment(path: str, segment: Segment, job: FinishedJob) -> Iterator[Rule]:
    start, finish = segment.start_time, segment.finish_time
    yield f"{path}.finish_time", finish, start <= finish, "start_time or later"
    early, late = job.start_time - CLOCK_SLACK_S, job.finish_time + CLOCK_SLACK_S
    yield path, (start, finish), early <= start and finish <= late, "times within the job's run"


def _signal(name: str, value: float) -> Iterator[Rule]:
    high = 1.0 if name.rsplit("_", 1)[0] in RATIO_SIGNALS else float("inf")
    yield f"signals.{name}", value, 0 <= value <= high, f"a number in [0, {high:g}]"
