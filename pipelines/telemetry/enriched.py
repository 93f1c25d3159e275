"""Finished jobs with what telemetry says of them beside what their scheduler measured."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from data.domain import FinishedJob
from data.joblog_signals import SignalTable
from data.placement import STRANGER
from data.prometheus.job_signals import JobSignals, Sharing
from pipelines.retraining.finished_jobs import FinishedJobs


def enriched(jobs: Sequence[FinishedJob], found: Iterable[JobSignals]) -> list[FinishedJob]:
    """Return the jobs, each with the signals that it lacked.

    Parameters
    ----------
    jobs : sequence of FinishedJob
    found : iterable of JobSignals
        Those under light sharing are left aside: they are of a card, not of a job.

    Returns
    -------
    list of FinishedJob, in the order of `jobs`
        What the scheduler measured itself stays as it is: it samples the job many times a
        second, a Prometheus a few times a minute. Where somebody else was seen on the cards of
        a job that was alone by its own record, that time is beside ``unknown`` instead, and the
        job has no signals: it is no baseline and no profile.

    Examples
    --------
    >>> from data.domain import Outcome
    >>> job = FinishedJob("1", 1, "u", "q", "ncf", 1, 0, 0, 9, Outcome.OK, signals={
    ...     "gpu_util_mean": 0.5})
    >>> found = JobSignals("1", 1, Sharing.EXCLUSIVE, 9.0, 3, {
    ...     "gpu_util_mean": 0.6, "sm_active_mean": 0.4})
    >>> enriched([job], [found])[0].signals
    {'gpu_util_mean': 0.5, 'sm_active_mean': 0.4}
    """
    own = {(o.job_id, o.attempt): o for o in found if o.sharing is Sharing.EXCLUSIVE}
    return [_one(job, own.get((job.job_id, job.attempt))) for job in jobs]


def _one(job: FinishedJob, found: JobSignals | None) -> FinishedJob:
    if found is None:
        return job
    if found.contradicted_s > 0:
        segments = tuple(
            segment if segment.neighbour_keys else replace(segment, neighbour_keys=(STRANGER,))
            for segment in job.segments
        )
        return replace(job, segments=segments, signals={})
    lacking = {name: v for name, v in found.signals.items() if name not in job.signals}
    return replace(job, signals={**job.signals, **lacking}) if lacking else job


def with_telemetry(joblog_url: str, finished: FinishedJobs) -> FinishedJobs:
    """Return the entries of a log with the signals that are kept beside it.

    Raises
    ------
    JobLogError
        If the database cannot be read now.
    """
    if not len(finished.sequences):
        return finished
    with SignalTable(joblog_url) as table:
        found = table.of_entries(finished.sequences[0], finished.sequences[-1])
    return replace(finished, jobs=enriched(finished.jobs, found))
