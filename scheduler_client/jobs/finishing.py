"""A run that ended as the finished job that is reported; always one that the log accepts."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import isfinite

from data.domain import PROFILE_COLUMNS, RATIO_SIGNALS, FinishedJob, Outcome, Segment
from scheduler_client.clusters import EndedRun
from scheduler_client.jobs.placement_note import PlacementNote
from scheduler_client.jobs.spool import SpooledJob

RESUBMITTED = (Outcome.PREEMPTED, Outcome.NODE_FAIL)
"""Ends that are not the job's own doing."""


def finished_job(job: SpooledJob, run: EndedRun, note: PlacementNote | None) -> FinishedJob:
    """Return the finished job of one attempt.

    A clock that was set back between submission and end cannot make it refused: moments are
    put in order, segments cut to the run, ratios to [0, 1], and what is no number is left out.
    """
    submission = job.submission
    start_time = max(job.submit_time, run.start_time)
    finish_time = max(start_time, run.finish_time)
    slowdown = None if note is None else note.slowdown
    return FinishedJob(
        job_id=job.job_id,
        attempt=job.attempt,
        user=submission.user,
        queue=submission.queue,
        job_key=submission.job_key,
        gpus=submission.gpus,
        submit_time=job.submit_time,
        start_time=start_time,
        finish_time=finish_time,
        outcome=run.outcome,
        segments=_within(run.segments, start_time, finish_time),
        gpu_mem_mib=submission.gpu_mem_mib,
        cpus=submission.cpus,
        mem_mib=submission.mem_mib,
        limit_s=submission.limit_s,
        structure=submission.structure,
        signals=_plausible(run.signals),
        predicted_slowdown=None if slowdown is None else slowdown.value,
        predicted_runtime_s=None if note is None or note.runtime is None else note.runtime.value,
        prediction_source=None if slowdown is None else slowdown.source,
        model_version=None if slowdown is None else slowdown.model_version,
    )


def memory_overshoot(finished: FinishedJob, reserved_mib: Sequence[int]) -> dict[str, int]:
    """Return ``reserved_mib`` and ``peak_mib`` of a job that used more than that; else nothing.

    Nobody enforces on a shared card what was reserved: the neighbour may have paid for it.

    Parameters
    ----------
    reserved_mib : sequence of int
        On each of its cards (MiB); together they count, as a peak may be that of all of them.
    """
    peak_mib, reserved = finished.signals.get("gpu_mem_peak_mib", 0.0), sum(reserved_mib)
    if not reserved_mib or peak_mib <= reserved:
        return {}
    return {"reserved_mib": reserved, "peak_mib": round(peak_mib)}


def lost_run(job: SpooledJob, last_seen_time: float) -> EndedRun:
    """Return the end of an attempt whose scheduler died; nothing more is known of it.

    Parameters
    ----------
    last_seen_time : float
        When that scheduler last said that it was alive (s since 1970, UTC).
    """
    start_time = job.start_time if job.start_time is not None else last_seen_time
    finish_time = max(start_time, last_seen_time)
    return EndedRun(job.job_id, job.attempt, Outcome.NODE_FAIL, start_time, finish_time, ())


def _within(segments: tuple[Segment, ...], start: float, finish: float) -> tuple[Segment, ...]:
    cut = (
        replace(s, start_time=max(s.start_time, start), finish_time=min(s.finish_time, finish))
        for s in segments
    )
    return tuple(segment for segment in cut if segment.start_time <= segment.finish_time)


def _plausible(signals: Mapping[str, float]) -> dict[str, float]:
    known = {n: v for n, v in signals.items() if n in PROFILE_COLUMNS and isfinite(v) and v >= 0}
    return {name: min(value, 1.0) if _is_ratio(name) else value for name, value in known.items()}


def _is_ratio(name: str) -> bool:
    return name.rsplit("_", 1)[0] in RATIO_SIGNALS
