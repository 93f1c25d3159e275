"""Finished jobs as the questions that a scheduler would have asked of them."""

from data.domain import FinishedJob, JobRequest
from serving.predictor import Predictor


def slowdown(predictor: Predictor, job: FinishedJob) -> float:
    """Return what is predicted of a job beside its neighbour."""
    pair = (job.job_key, job.segments[0].neighbour_keys[0], job.segments[0].gpu_model)
    # Not `slowdowns`: it refuses what was never profiled, a placement answers it all the
    # same, by what `estimates` says.
    return predictor._needed_slowdowns().estimates([pair])[0].value


def request(job: FinishedJob) -> JobRequest:
    """Return a job as it was submitted."""
    return JobRequest(
        job.job_id, job.user, job.queue, job.job_key, job.submit_time, job.gpus,
        None, job.cpus, job.mem_mib, job.limit_s, 0.0, job.structure,
    )  # fmt: skip
