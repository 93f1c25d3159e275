"""Finished jobs at the usual speed of their GPU model, whatever a driver has done to it since."""

from collections import defaultdict, deque
from collections.abc import Iterable
from dataclasses import replace
from math import exp, isnan, log, nan
from statistics import median

from data.domain import FinishedJob, Outcome
from features.exposure import WHOLE, exposure

BASE_RUNS = 4  # exclusive runs of a key that say how long it takes
NEWEST_RUNS = 9  # exclusive runs of a GPU model, of any key, that say how fast it is now
SMALLEST = 0.05  # log; less than the noise of a median of so few runs
TIGHT = 0.1  # log; a key whose first runs differ by more is not the same work each time
LEAST_S = 0.1

Key = tuple[str, str, int]
"""Job key, GPU model, GPUs."""


class UsualSpeed:
    """How fast each GPU model runs, against when its job keys were first seen.

    ``normal`` each finished job in the order of the job log: what comes back has the times that
    it would have had at the usual speed. A slowdown beside a neighbour is then a ratio of times at
    one speed, though the exclusive runs were made before a driver slowed everything, and the
    colocated run after.

    Notes
    -----
    The same job key on the same GPU model and as many GPUs is taken to be the same work. One that
    is first seen at another speed counts as if it had been seen at the usual one.

    Examples
    --------
    >>> from data.domain import Segment
    >>> def job(seconds, *beside):
    ...     parts = (Segment(0, seconds, "g0", "A100", beside),)
    ...     return FinishedJob("1", 1, "u", "q", "ncf", 1, 0, 0, seconds, Outcome.OK, parts)
    >>> speed = UsualSpeed()
    >>> quick = [speed.normal(job(100.0)) for _ in range(9)]
    >>> slow = [speed.normal(job(120.0)) for _ in range(9)]
    >>> round(speed.factor("A100"), 3), round(speed.normal(job(180.0, "bert")).runtime_s, 3)
    (1.2, 150.0)
    """

    def __init__(self) -> None:
        self._base: dict[Key, float] = {}
        self._first: defaultdict[Key, list[float]] = defaultdict(list)
        self._newest: defaultdict[str, deque[float]] = defaultdict(
            lambda: deque(maxlen=NEWEST_RUNS)
        )

    def factor(self, gpu_model: str) -> float:
        """Return how many times longer jobs take there now than is usual; 1 while unknown."""
        runs = self._newest.get(gpu_model)
        if runs is None or len(runs) < NEWEST_RUNS:
            return 1.0
        moved = median(runs)
        return exp(moved) if abs(moved) >= SMALLEST else 1.0

    def normal(self, job: FinishedJob) -> FinishedJob:
        """Return a finished job as it would have been at the usual speed, and learn from it."""
        models = {segment.gpu_model for segment in job.segments}
        if len(models) != 1:
            return job
        (gpu_model,) = models
        self._observe(job, gpu_model)
        factor = self.factor(gpu_model)
        return job if factor == 1.0 else _rescaled(job, factor)

    def _observe(self, job: FinishedJob, gpu_model: str) -> None:
        if job.outcome is not Outcome.OK or not job.job_key:
            return
        found = exposure(job)
        if found.neighbours or not found.exclusive_s >= WHOLE * found.runtime_s > 0:
            return
        key, now = (job.job_key, gpu_model, job.gpus), log(max(job.runtime_s, LEAST_S))
        base = self._base.get(key)
        if base is not None:
            if not isnan(base):
                self._newest[gpu_model].append(now - base)
            return
        first = self._first[key]
        first.append(now - log(self.factor(gpu_model)))
        if len(first) == BASE_RUNS:
            is_tight = max(first) - min(first) <= TIGHT
            self._base[key] = median(self._first.pop(key)) if is_tight else nan


def at_usual_speed(jobs: Iterable[FinishedJob]) -> list[FinishedJob]:
    """Return finished jobs, in the order of the job log, at the usual speed of their cards."""
    speed = UsualSpeed()
    return [speed.normal(job) for job in jobs]


def _rescaled(job: FinishedJob, factor: float) -> FinishedJob:
    start = job.start_time

    def moment(time: float) -> float:
        return start + (time - start) / factor

    segments = tuple(
        replace(s, start_time=moment(s.start_time), finish_time=moment(s.finish_time))
        for s in job.segments
    )
    return replace(job, finish_time=moment(job.finish_time), segments=segments)
