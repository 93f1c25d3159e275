"""A job that this scheduler has started, from the decision to its end."""

from dataclasses import dataclass, field

from data.domain import Estimate, JobRequest
from scheduler_client.jobs.placement_note import PlacementNote
from scheduler_client.jobs.spool import SpooledJob, Starting
from scheduler_client.policy.view import RunningJob


@dataclass(slots=True)
class StartedJob:
    """One attempt, and what has become of it.

    Attributes
    ----------
    note : PlacementNote
        The decision behind it.
    is_stopping : bool
        It has been told to end.
    request : JobRequest
        What the models may know of it; made once, as every cycle shows it.
    runtime : Estimate, optional
        Of the whole run (s): of the note, until it is predicted anew.
    """

    job: SpooledJob
    note: PlacementNote
    is_stopping: bool = False
    request: JobRequest = field(init=False)
    runtime: Estimate | None = field(init=False)
    _shown: RunningJob | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.request = self.job.submission.request(self.job.job_id, self.job.submit_time)
        self.runtime = self.note.runtime

    @property
    def starting(self) -> Starting:
        """What the spool must know before it runs."""
        job = self.job
        return Starting(job.job_id, job.attempt, job.start_time or 0.0, self.note.to_json())

    def as_running(self, saved_time: float | None = None) -> RunningJob:
        """Return the job as a policy sees it; `saved_time` is when its work was saved last.

        The very same object as long as nothing changes: a cycle shows ten thousand of them.
        """
        shown = self._shown
        if (
            shown is None
            or shown.saved_time != saved_time
            or shown.runtime is not self.runtime
            or shown.is_stopping is not self.is_stopping
        ):
            shown = self._shown = self._as_running(saved_time)
        return shown

    def _as_running(self, saved_time: float | None) -> RunningJob:
        submission, note = self.job.submission, self.note
        return RunningJob(
            job_id=self.job.job_id,
            user=submission.user,
            queue=submission.queue,
            job_key=submission.job_key,
            card_ids=note.card_ids,
            start_time=self.job.start_time or 0.0,
            is_guaranteed=note.is_guaranteed,
            priority=submission.priority,
            mem_mib=note.mem_mib,
            runtime=self.runtime,
            limit_s=submission.limit_s,
            saved_time=saved_time,
            is_stopping=self.is_stopping,
            request=self.request,
            attained_gpu_s=self.job.attained_gpu_s,
        )
