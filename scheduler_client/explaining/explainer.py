"""Answers questions about the running scheduler, from what its cycles have shown."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from data.errors import SettingError, WireError
from data.wire import Json, from_json
from scheduler_client.explaining.documents import (
    placed_document,
    span_document,
    wait_document,
    waiting_document,
)
from scheduler_client.explaining.history import History
from scheduler_client.explaining.wait import WaitEstimate, wait_estimate, wait_estimates
from scheduler_client.explaining.wait_book import WaitBook
from scheduler_client.explaining.whatif import Imagined, imagined_view, whatif_document
from scheduler_client.jobs.submission import Submission, checked_submission
from scheduler_client.loop import Cycle
from scheduler_client.policy.policies import Policy
from scheduler_client.policy.predictions import Predictions
from scheduler_client.policy.view import ClusterView, PendingJob

NEW_JOB = "what-if"
"""The job id of a job that has not been submitted."""

PAUSE = 10.0
"""Estimating all waits, which takes 0.1 s at 10,000 cards, rests for so many times as long."""

Forecast = Callable[[ClusterView, int], Predictions]


@dataclass(frozen=True, slots=True)
class Asked:
    """A job that is asked about; as in a submission, but for the command."""

    user: str
    queue: str
    job_key: str
    gpus: int = 1
    gpu_mem_mib: int | None = None
    gpu_model: str | None = None
    limit_s: float | None = None
    priority: int = 0


class Explainer:
    """Remembers what cycles decided, and explains it.

    Parameters
    ----------
    policy : Policy
        The one that decides.
    forecast : callable
        View and jobs per card to predictions; called from the threads that ask.
    waits : WaitBook, optional
        What is known from the past of how long jobs wait.
    keep : callable
        Told the time of each cycle, when `waits` has seen it.
    clock : callable
        Returns monotonic seconds.
    """

    def __init__(
        self,
        policy: Policy,
        forecast: Forecast,
        waits: WaitBook | None = None,
        keep: Callable[[float], None] = lambda _now: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._policy, self._forecast = policy, forecast
        self._lock = threading.Lock()
        self._asking = threading.Lock()  # one what-if at a time: each decides twice
        self._cycle: Cycle | None = None
        self._history = History()
        self._waits = WaitBook() if waits is None else waits
        self._keep, self._clock = keep, clock
        self._next_s = float("-inf")

    def observe(self, cycle: Cycle) -> None:
        """Take in a cycle."""
        with self._lock:
            self._cycle = cycle
            self._history.observe(cycle.decision, cycle.view.now)
            self._learn(cycle)
        self._keep(cycle.view.now)

    def _learn(self, cycle: Cycle) -> None:
        """Let the waits be estimated, if that was not done a short while ago, and learnt from."""
        decision, view, began_s = cycle.decision, cycle.view, self._clock()

        def estimates() -> dict[str, WaitEstimate]:
            found = wait_estimates(decision.waiting, view, cycle.predictions)
            self._next_s = self._clock() + PAUSE * (self._clock() - began_s)
            return found

        self._waits.observe(
            view.now,
            [one.job_id for one in decision.waiting],
            [one.job_id for one in decision.admissions],
            estimates if began_s >= self._next_s else None,
        )

    def why(self, job_id: str) -> Json:
        """Return why a job waits, or where it runs, with its history; None if it is unknown."""
        with self._lock:
            cycle, spans = self._cycle, self._history.spans(job_id)
            placed = self._history.placed(job_id)
        if cycle is None:
            return None
        waiting = next((w for w in cycle.decision.waiting if w.job_id == job_id), None)
        if waiting is None and not placed and not spans:
            return None
        is_running = any(r.job_id == job_id for card in cycle.cards for r in card.residents)
        state = "waiting" if waiting is not None else "running" if is_running else "ended"
        wait = None if waiting is None else self._wait(cycle, job_id)
        return {
            "job_id": job_id,
            "time": cycle.view.now,
            "state": state,
            "waiting": None if waiting is None else waiting_document(waiting),
            "wait": wait_document(wait),
            "history": [span_document(span) for span in spans],
            "placements": [placed_document(each) for each in placed],
        }

    def placement(self, job_id: str) -> Json:
        """Return how the newest attempt of a job was placed, and why so; None if unknown."""
        with self._lock:
            placed = self._history.placed(job_id)
        return {"job_id": job_id, **placed_document(placed[-1])} if placed else None

    def whatif(self, document: object) -> Json:
        """Return what would happen to a job; None before the first cycle.

        Raises
        ------
        SettingError
            If `document` describes no job that could be submitted; names the field.
        """
        pending = _pending(document, 0.0)
        with self._lock:
            cycle = self._cycle
        if cycle is None:
            return None
        with self._asking:
            pending = _pending(document, cycle.view.now)
            view = imagined_view(cycle.view, pending)
            predictions = {**cycle.predictions}
            if self._policy.asks:
                alone = ClusterView(view.now, view.cards, (pending,), view.running, view.queues)
                predictions |= self._forecast(alone, self._policy.max_jobs_per_card)
            imagined = Imagined(view, pending, predictions)
            return whatif_document(imagined, self._policy, self._corrected)

    def _wait(self, cycle: Cycle, job_id: str) -> WaitEstimate | None:
        found = wait_estimate(cycle.decision.waiting, job_id, cycle.view, cycle.predictions)
        return None if found is None else self._corrected(found, job_id, cycle.view.now)

    def _corrected(self, estimate: WaitEstimate, job_id: str, now: float) -> WaitEstimate:
        with self._lock:
            return self._waits.corrected(estimate, job_id, now)


def _pending(document: object, now: float) -> PendingJob:
    try:
        asked = from_json(Asked, document)
    except WireError as error:
        raise SettingError(str(error)) from error
    submission = checked_submission(
        Submission(
            user=asked.user,
            queue=asked.queue,
            job_key=asked.job_key,
            command=("what-if",),
            gpus=asked.gpus,
            gpu_mem_mib=asked.gpu_mem_mib,
            gpu_model=asked.gpu_model,
            limit_s=asked.limit_s,
            priority=asked.priority,
        )
    )
    request = submission.request(NEW_JOB, now)
    return PendingJob(request, asked.priority, gpu_model=asked.gpu_model)
