"""A spooled job in the forms that policies, clusters and the log want it in."""

from data.wire import Json
from scheduler_client.clusters import Launch
from scheduler_client.jobs.placement_note import PlacementNote
from scheduler_client.jobs.spool import SpooledJob
from scheduler_client.policy.decisions import Eviction
from scheduler_client.policy.view import PendingJob


def started_fields(job: SpooledJob, note: PlacementNote) -> dict[str, Json]:
    """Return what the log says of an attempt that was started."""
    slowdown, age_s = note.slowdown, note.answer_age_s
    return {
        "job_id": job.job_id,
        "attempt": job.attempt,
        "user": job.submission.user,
        "job_key": job.submission.job_key,
        "card_ids": list(note.card_ids),
        "neighbours": list(note.neighbour_keys),
        "slowdown": None if slowdown is None else round(slowdown.value, 4),
        "level": note.level,
        "answer_age_s": None if age_s is None else round(age_s, 3),
        "model_version": note.model_version,
        "reason": note.reason,
    }


def eviction_fields(eviction: Eviction) -> dict[str, Json]:
    """Return what the log says of jobs that must end for another."""
    return {
        "job_id": eviction.job_id,
        "victims": list(eviction.victims),
        "card_ids": list(eviction.card_ids),
        "cost_gpu_s": round(eviction.cost_gpu_s, 3),
        "reason": eviction.ground,
    }


def pending_job(job: SpooledJob) -> PendingJob:
    """Return a waiting job as a policy sees it."""
    submission = job.submission
    return PendingJob(
        job=submission.request(job.job_id, job.submit_time),
        priority=submission.priority,
        attempt=job.attempt,
        gpu_model=submission.gpu_model,
        attained_gpu_s=job.attained_gpu_s,
    )


def launch(job: SpooledJob, note: PlacementNote) -> Launch:
    """Return an attempt as a cluster runs it."""
    submission = job.submission
    return Launch(
        job_id=job.job_id,
        attempt=job.attempt,
        job_key=submission.job_key,
        command=submission.command,
        card_ids=note.card_ids,
        mem_mib=note.mem_mib,
        limit_s=submission.limit_s,
        working_directory=submission.working_directory,
        environment=submission.environment,
    )
