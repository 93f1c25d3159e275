"""How fast repeated work runs: each exclusive run against earlier ones of the same key."""

from collections import defaultdict, deque
from collections.abc import Collection, Sequence
from math import log, nan
from statistics import median

import numpy as np

from data.domain import FinishedJob, Outcome
from features.exposure import WHOLE, exposure
from pipelines.retraining.drift import Floats

FEWEST_BEFORE = 3
KEPT = 16
LEAST_S = 0.1
TIGHT = 0.1  # log; a key whose runs are further apart is not the same work each time


def relative_times(jobs: Sequence[FinishedJob]) -> Floats:
    """Return the log of each job's time over the median of earlier runs of the same work.

    Parameters
    ----------
    jobs : sequence of FinishedJob
        In the order of the job log.

    Returns
    -------
    float64 array of shape (n,)
        0 is as usual, 0.14 is 15 % slower. NaN where the job was not alone for its whole run, did
        not end well, is among the first three of its key on that GPU model, or where the key is not
        the same work each time.

    Notes
    -----
    Whatever slows all jobs of a GPU model, such as a driver, shows here within a few jobs, while
    a slowdown beside a neighbour, being a ratio of two such times, does not move at all.

    Examples
    --------
    >>> from data.domain import Segment
    >>> def job(n, seconds):
    ...     alone = (Segment(0, seconds, "g0", "A100"),)
    ...     return FinishedJob(str(n), 1, "u", "q", "ncf", 1, 0, 0, seconds, Outcome.OK, alone)
    >>> relative_times([job(1, 10), job(2, 10), job(3, 10), job(4, 20)]).round(3).tolist()
    [nan, nan, nan, 0.693]
    """
    times = RelativeTimes()
    return np.array([times.of(job) for job in jobs], dtype=np.float64)


class RelativeTimes:
    """The newest runs of each key, against which the next one is told; see `relative_times`."""

    def __init__(self) -> None:
        self._runs: defaultdict[tuple[str, str, int], deque[float]] = defaultdict(
            lambda: deque(maxlen=KEPT)
        )

    def of(self, job: FinishedJob) -> float:
        """Return the log of the next job's time over what is usual, and remember it."""
        gpu_model = _alone_on(job)
        if gpu_model is None:
            return nan
        runs = self._runs[job.job_key, gpu_model, job.gpus]
        now = log(max(job.runtime_s, LEAST_S))
        is_known = len(runs) >= FEWEST_BEFORE and _spread(runs) <= TIGHT
        found = now - median(runs) if is_known else nan
        runs.append(now)
        return found


def _spread(runs: Collection[float]) -> float:
    middle = median(runs)
    return median(abs(run - middle) for run in runs)


def _alone_on(job: FinishedJob) -> str | None:
    if job.outcome is not Outcome.OK or not job.job_key:
        return None
    found = exposure(job)
    alone = not found.neighbours and found.exclusive_s >= WHOLE * found.runtime_s > 0
    return found.gpu_model if alone else None
