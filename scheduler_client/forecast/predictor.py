"""What the scheduler asks of whoever predicts."""

from collections.abc import Sequence
from typing import Protocol

from data.domain import Card, Estimate, JobRequest, Placement

NO_MODEL = "none"
"""The model version of an estimate that no model made."""


class Predictor(Protocol):
    """Answers a scheduler's questions: the service behind HTTP, or a model at hand.

    Every method raises `PredictionError` where it has no answer within `within_s` seconds.
    """

    def placements(
        self, job: JobRequest, cards: Sequence[Card], within_s: float | None = None
    ) -> tuple[Placement, ...]:
        """Return the consequences of placing `job` on each of `cards`, in their order."""
        ...

    def runtimes(
        self,
        jobs: Sequence[JobRequest],
        running: Sequence[JobRequest] = (),
        within_s: float | None = None,
    ) -> tuple[Estimate, ...]:
        """Return the whole runtime of each job (s), in their order.

        Given how long each has lasted, and `running` jobs, which are not answered.
        """
        ...
