"""Runtimes of the jobs that run, predicted anew the longer they last."""

from collections.abc import Callable, Mapping, Sequence

from data.domain import Estimate
from data.errors import PredictionError, PredictionRefusedError
from scheduler_client.config import PredictionSettings
from scheduler_client.events import log_fault
from scheduler_client.forecast.asking import Asking
from scheduler_client.forecast.predictor import NO_MODEL, Predictor
from scheduler_client.forecast.running_beside import elapsed_s, running_beside, running_request
from scheduler_client.policy.view import RunningJob

GROWTH = 1.1
"""A job is asked about again once it has lasted a tenth longer than when it was last."""

MOST_ASKED = 1_000
"""Jobs of one question, which is the only one within ``fresh_s``; the others come with the next."""


class RunningAnswers:
    """Asks how long running jobs will last in all, given how long they have lasted.

    A job that outlasts its prediction was predicted wrong, and the longer it lasts the longer it
    will: without asking again it would count as about to end for ever. `clock` returns monotonic
    seconds.

    Notes
    -----
    Repredicting from what has survived: Ling et al., "LAVA: Lifetime-Aware VM Allocation with
    Learned Distributions and Adaptation to Mispredictions", MLSys 2025.
    """

    def __init__(
        self, predictor: Predictor, settings: PredictionSettings, clock: Callable[[], float]
    ) -> None:
        self._predictor, self._settings, self._clock = predictor, settings, clock
        self._asked_at: dict[tuple[str, float], float] = {}
        self._next_s = clock()
        self._took_s = 0.0

    def repredicted(
        self, running: Sequence[RunningJob], now: float, asking: Asking
    ) -> Mapping[str, Estimate]:
        """Return the new estimates (s) of the jobs that were asked about now, by job id.

        None, where it was not worth a question, or nobody answered, or no model did: what was
        predicted before then still holds. While waiting jobs are left that nobody knows, they go
        first, for at most ``fresh_s``.

        Parameters
        ----------
        now : float
            Seconds since 1970, UTC.
        """
        due_s = self._next_s + (self._settings.fresh_s if asking.left_unknown else 0.0)
        if self._clock() < due_s or not asking.may_go(self._clock(), self._took_s):
            return {}
        self._next_s = self._clock() + self._settings.fresh_s
        known = self._asked_at
        runs = [_run(job) for job in running]
        self._asked_at = {run: known.get(run, 0.0) for run in runs}
        due = self._due(running, now)
        return self._answers(due, running, now, asking) if due else {}

    def _due(self, running: Sequence[RunningJob], now: float) -> Sequence[RunningJob]:
        """Return the jobs that have lasted notably longer than when they were asked about."""
        grown = []
        for job, asked_at in zip(running, self._asked_at.values(), strict=True):
            elapsed = elapsed_s(job, now)
            least = max(GROWTH * asked_at, asked_at + self._settings.fresh_s)
            if elapsed > least and job.request is not None and not job.is_stopping:
                grown.append((asked_at / elapsed, job))
        grown.sort(key=lambda ranked: ranked[0])
        return [job for _, job in grown[:MOST_ASKED]]

    def _answers(
        self, due: Sequence[RunningJob], running: Sequence[RunningJob], now: float, asking: Asking
    ) -> Mapping[str, Estimate]:
        began_s, requests = self._clock(), [running_request(job, now) for job in due]
        beside = running_beside(requests, running, now)
        try:
            found = self._predictor.runtimes(requests, beside, asking.left_s(began_s))
        except PredictionRefusedError as error:
            log_fault("refused", question="running", error=str(error))
            found = ()
        except PredictionError as error:
            asking.error = error
            return {}
        self._took_s = self._clock() - began_s
        self._asked_at |= {_run(job): elapsed_s(job, now) for job in due}
        answers = zip(due, found, strict=False)  # nobody's, where it was refused
        return {job.job_id: each for job, each in answers if each.model_version != NO_MODEL}


def _run(job: RunningJob) -> tuple[str, float]:
    """Return what tells this attempt from others of the same job."""
    return job.job_id, job.start_time
