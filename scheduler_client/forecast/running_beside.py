"""Which of the running jobs are told to the service with a question about runtimes."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from operator import attrgetter

from data.domain import JobRequest
from scheduler_client.policy.view import RunningJob

NEWEST = 33
"""Of each user, and of each request, so many that started last: the models look at 32 others."""

MOST_RUNNING = 2_000
"""Told with one question; the service takes 10,000."""


def running_beside(
    jobs: Sequence[JobRequest], running: Iterable[RunningJob], now: float
) -> tuple[JobRequest, ...]:
    """Return the running jobs that say something about `jobs`, with how long they have run.

    Those of the same users that started last, and of these users those with the very same request:
    a job that runs tells that alike ones last at least as long, and of others nothing is read.

    Parameters
    ----------
    jobs : sequence of JobRequest
    running : iterable of RunningJob
        Without ``request`` they are left out.
    now : float
        Seconds since 1970, UTC.

    Returns
    -------
    tuple of JobRequest
        At most 2,000; where there are more, each user keeps the newest.
    """
    users = {job.user for job in jobs}
    asked = {_kind(job) for job in jobs}
    of_users = [job for job in running if job.user in users and job.request is not None]
    of_users.sort(key=lambda job: job.start_time, reverse=True)
    newer: defaultdict[object, int] = defaultdict(int)
    found = []
    for job in of_users:
        place, same = newer[job.user], _kind(job.request)
        newer[job.user] += 1
        if same in asked:
            place = min(place, newer[same])
            newer[same] += 1
        if place < NEWEST:
            found.append((place, job))
    found.sort(key=lambda ranked: ranked[0])
    return tuple(running_request(job, now) for _, job in found[:MOST_RUNNING])


def running_request(job: RunningJob, now: float) -> JobRequest:
    """Return what the service is asked or told of a running job."""
    assert job.request is not None
    # How it is built inside says nothing of how long a job runs.
    return replace(job.request, elapsed_s=elapsed_s(job, now), structure=None)


def elapsed_s(job: RunningJob, now: float) -> float:
    """Return how long a job has been running (s, >= 0)."""
    return max(0.0, now - job.start_time)


_kind = attrgetter("user", "queue", "job_key", "gpus", "cpus", "mem_mib", "limit_s")
