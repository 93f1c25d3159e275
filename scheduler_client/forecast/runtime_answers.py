"""Predicted runtimes of pending jobs: asked when stale, kept through outages."""

from collections.abc import Callable, Mapping, Sequence

from data.domain import Estimate, JobRequest
from data.errors import PredictionError, PredictionRefusedError
from scheduler_client.config import PredictionSettings
from scheduler_client.events import log_fault
from scheduler_client.forecast.asking import Asking, LevelWatch
from scheduler_client.forecast.predictor import Predictor
from scheduler_client.forecast.running_beside import running_beside
from scheduler_client.policy.decisions import Level
from scheduler_client.policy.view import ClusterView

MOST_JOBS = 2_000
"""Rows that the service takes at once."""


class RuntimeAnswers:
    """The newest runtime estimate of every pending job; `clock` returns monotonic seconds."""

    def __init__(
        self, predictor: Predictor, settings: PredictionSettings, clock: Callable[[], float]
    ) -> None:
        self._predictor, self._settings, self._clock = predictor, settings, clock
        self._known: dict[str, tuple[Estimate, float]] = {}
        self._watch = LevelWatch("runtime")

    def runtimes(self, view: ClusterView, asking: Asking) -> Mapping[str, Estimate]:
        """Return the estimates (s) there are of pending jobs, by job id; forget all others."""
        jobs, known, was_down = [p.job for p in view.pending], self._known, asking.error is not None
        self._known = {job.job_id: known[job.job_id] for job in jobs if job.job_id in known}
        stale = self._older_than(jobs, self._settings.fresh_s)
        for first in range(0, len(stale), MOST_JOBS):
            if asking.may_go(self._clock()):
                self._ask(stale[first : first + MOST_JOBS], view, asking)
        if not was_down:  # else nobody was asked
            self._watch.observe(Level.LAST_GOOD if asking.error else Level.MODEL, asking)
        for job in self._older_than(jobs, max(self._settings.fresh_s, self._settings.last_good_s)):
            self._known.pop(job.job_id, None)
        return {job_id: estimate for job_id, (estimate, _) in self._known.items()}

    def _older_than(self, jobs: Sequence[JobRequest], age_s: float) -> list[JobRequest]:
        oldest_s = self._clock() - age_s
        never = (None, float("-inf"))
        return [job for job in jobs if self._known.get(job.job_id, never)[1] < oldest_s]

    def _ask(self, jobs: Sequence[JobRequest], view: ClusterView, asking: Asking) -> None:
        beside = running_beside(jobs, view.running, view.now)
        try:
            found = self._predictor.runtimes(jobs, beside, asking.left_s(self._clock()))
        except PredictionRefusedError as error:
            log_fault("refused", question="runtime", error=str(error))
        except PredictionError as error:
            asking.error = error
        else:
            asking.was_answered = True
            answered_s = self._clock()
            pairs = zip(jobs, found, strict=True)
            self._known.update({job.job_id: (estimate, answered_s) for job, estimate in pairs})
