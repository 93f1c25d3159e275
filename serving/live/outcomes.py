"""How far off the predictions were that decisions were made by, once the outcome is known."""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from math import log
from statistics import median

from data.domain import FinishedJob, Outcome
from features.exposure import exposure, lone_neighbour

NEWEST = 200
RUNTIME, SLOWDOWN = "runtime", "slowdown"


@dataclass(frozen=True, slots=True)
class LiveError:
    """Median absolute log error over `count` outcomes: 0.1 is about ten percent."""

    count: int
    median: float


@dataclass(slots=True)
class Outcomes:
    """The newest outcomes of what was predicted.

    Attributes
    ----------
    alone_s : callable
        From job key and GPU model to the job's runtime alone (s), or None.
    """

    alone_s: Callable[[str, str], float | None]
    _errors: dict[str, deque[float]] = field(default_factory=dict)

    def observe(self, jobs: Iterable[FinishedJob]) -> None:
        """Hold the predictions that finished jobs carry against what has come of them."""
        for job in jobs:
            if job.outcome is Outcome.OK and job.runtime_s > 0:
                self._add(RUNTIME, job.predicted_runtime_s, job.runtime_s)
                if job.predicted_slowdown is not None:
                    self._add(SLOWDOWN, job.predicted_slowdown, self._slowdown(job))

    def errors(self) -> Mapping[str, LiveError]:
        """Return the error by kind of prediction; kinds without any outcome are absent."""
        return {k: LiveError(len(found), median(found)) for k, found in self._errors.items()}

    def _slowdown(self, job: FinishedJob) -> float | None:
        found = exposure(job)
        alone_s = self.alone_s(job.job_key, found.gpu_model) if found.neighbours else None
        one = lone_neighbour(found, alone_s) if alone_s else None
        return one[1] if one else None

    def _add(self, kind: str, predicted: float | None, observed: float | None) -> None:
        if predicted and observed:
            errors = self._errors.setdefault(kind, deque(maxlen=NEWEST))
            errors.append(abs(log(predicted / observed)))
