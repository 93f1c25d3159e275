"""Submit the demo's jobs at their moments, and wait until the job log holds every one."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from data.domain import FinishedJob
from data.errors import ServiceStartError
from data.joblog import JobLog
from pipelines.demo.jobs import DemoJob
from pipelines.profiling.workloads import Workload
from scheduler_client.jobs.spool import Spool
from scheduler_client.jobs.submission import Submission

POLL_S = 0.2
GIVE_UP_S = 300.0


def submission(job: DemoJob, workload: Workload) -> Submission:
    """Return what `job` hands to the scheduler: one of the sample programs."""
    return Submission(
        user=job.user,
        queue=job.user,
        job_key=job.job_key,
        command=workload.command,
        structure=workload.structure,
        working_directory=workload.cwd or "",
        environment=workload.env,
    )


def submitted(
    jobs: Sequence[DemoJob], workloads: Mapping[str, Workload], spool: Spool
) -> Iterator[str]:
    """Submit each job when its offset has passed since the first; yield its id."""
    start = time.monotonic()
    for job in jobs:
        time.sleep(max(0.0, start + job.offset_s - time.monotonic()))
        yield spool.submit(submission(job, workloads[job.job_key]))


def finished(
    job_ids: Iterator[str],
    expected: int,
    joblog_url: str,
    advance: Callable[[int], object],
    keep_up: Callable[[], object],
) -> list[FinishedJob]:
    """Submit by drawing from `job_ids`, and return the log's entry of every one of them.

    Parameters
    ----------
    job_ids : iterator of str
        Submits as it is drawn from (`submitted`).
    expected : int
        How many it will yield.
    joblog_url : str
    advance : callable
        Told the number of newly finished jobs, for a progress bar.
    keep_up : callable
        Called again and again while jobs run, to start services that ended.

    Raises
    ------
    ServiceStartError
        If the jobs have not finished after ``GIVE_UP_S`` seconds.
    """
    waiting: set[str] = set()
    found: list[FinishedJob] = []
    deadline = time.monotonic() + GIVE_UP_S
    with JobLog(joblog_url) as log:
        sequence = log.count()
        for job_id in job_ids:
            waiting.add(job_id)
            sequence = _collect(log, sequence, waiting, found, advance)
        while len(found) < expected:
            keep_up()
            if time.monotonic() > deadline:
                raise ServiceStartError(
                    f"{expected - len(found)} of {expected} jobs are not in the job log after "
                    f"{GIVE_UP_S:g} s; see the scheduler's log"
                )
            time.sleep(POLL_S)
            sequence = _collect(log, sequence, waiting, found, advance)
    return found


def _collect(
    log: JobLog,
    sequence: int,
    waiting: set[str],
    found: list[FinishedJob],
    advance: Callable[[int], object],
) -> int:
    for number, job in log.since(sequence):
        sequence = number
        if job.job_id in waiting:
            waiting.discard(job.job_id)
            found.append(job)
            advance(1)
    return sequence


def sample_structures(workloads: Mapping[str, Workload]) -> dict[str, object]:
    """Return the structure of each workload that states one."""
    return {name: work.structure for name, work in workloads.items() if work.structure is not None}


def log_lines(path: Path, words: Sequence[str]) -> list[str]:
    """Return the lines of a log that hold one of `words`."""
    if not path.exists():
        return []
    lines = path.read_text(errors="replace").splitlines()
    return [line for line in lines if any(word in line for word in words)]
