"""What runtime predictions are worth to a scheduler: shortest first, by them and by the truth."""

from collections import deque
from heapq import heappop, heappush

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from features.digests import row_digests
from features.history_levels import REQUEST
from pipelines.replaying.trace import quotas_for_load, trace_of
from scheduler_client.baselines.fifo import FifoPooled
from scheduler_client.baselines.shortest import sjf_oracle
from scheduler_client.replay.outcome import Outcome
from scheduler_client.replay.simulation import ReplayPolicy, Simulation, Site
from scheduler_client.replay.trace import Trace
from scheduler_client.replay.truth import GroundTruth

Floats = NDArray[np.float64]
LOAD = 0.9
PRIOR_JOBS = 0.25
"""Finished jobs of its batch that a prediction counts for: variance within over that between."""

NEWEST = 3
"""Finished jobs of a line that are looked at; on DRAC before 24 May 2021, 2 and 5 gain less."""

ALONE = GroundTruth(
    np.ones((1, 1)), np.ones((1, 1), np.bool_), np.zeros((1, 1), np.bool_), np.ones(1), ("alone",)
)


class PredictedFirst:
    """One pool, nothing shared; of all pending jobs that fit, the one predicted to be shortest.

    What a user asks for alike waits in one line. Its key is what was predicted of its first
    pending job, moved by what the newest finished jobs of the line took: a scheduler asks again
    while jobs wait.

    Parameters
    ----------
    predicted_s : float64 array of shape (n,), > 0
        Told at each job's submission, in the order of the trace.
    line : uint64 array of shape (n,)
        Equal for jobs of one line.
    """

    name = "predicted_first"

    def __init__(self, predicted_s: Floats, line: NDArray[np.uint64]) -> None:
        codes, self._line = np.unique(line, return_inverse=True)
        self._predicted_log: list[float] = np.log(predicted_s).tolist()
        self._lines: list[deque[int]] = [deque() for _ in codes]
        self._version = [0] * len(codes)
        self._seen: list[deque[float]] = [deque(maxlen=NEWEST) for _ in codes]
        self._heaps: dict[int, list[tuple[float, int, int]]] = {}

    def begin(self, simulation: Simulation) -> None:
        """Get ready for a replay."""
        self._simulation = simulation
        self._runtime_s: list[float] = simulation.trace.runtime_s.tolist()

    def submitted(self, job: int) -> None:
        """Take in a job that has arrived."""
        line = int(self._line[job])
        self._lines[line].append(job)
        if len(self._lines[line]) == 1:
            self._rank(line)

    def finished(self, job: int) -> None:
        """Learn how long a job of its line took."""
        line = int(self._line[job])
        self._seen[line].append(float(np.log(self._runtime_s[job])))
        if self._lines[line]:
            self._rank(line)

    def schedule(self) -> None:
        """Start whatever fits, shortest first; a gang that does not fit is passed."""
        cards = self._simulation.cards
        while cards.empty and (line := self._next(len(cards.empty))) is not None:
            job = self._lines[line].popleft()
            self._simulation.start(job, cards.take_empty(self._simulation.gpus[job]), "alone")
            if self._lines[line]:
                self._rank(line)

    def key(self, line: int) -> float:
        """Return the expected log runtime of a line's next job."""
        told, seen = self._predicted_log[self._lines[line][0]], self._seen[line]
        return (PRIOR_JOBS * told + sum(seen)) / (PRIOR_JOBS + len(seen))

    def _rank(self, line: int) -> None:
        self._version[line] += 1
        gpus = self._simulation.gpus[self._lines[line][0]]
        entry = (self.key(line), line, self._version[line])
        heappush(self._heaps.setdefault(gpus, []), entry)

    def _next(self, free: int) -> int | None:
        for gpus, heap in self._heaps.items():
            if gpus <= free:
                self._drop_stale(heap)
        fitting = [heap[0] for gpus, heap in self._heaps.items() if gpus <= free and heap]
        return min(fitting)[1] if fitting else None

    def _drop_stale(self, heap: list[tuple[float, int, int]]) -> None:
        while heap and not self._is_current(*heap[0][1:]):
            heappop(heap)

    def _is_current(self, line: int, version: int) -> bool:
        return bool(self._lines[line]) and self._version[line] == version


def oracle_gain(jobs: pd.DataFrame, predicted_s: Floats, load: float = LOAD) -> float | None:
    """Return the share of the oracle's gain in mean wait that predictions reach.

    Three replays of the GPU jobs on one pool of cards without sharing: in order of arrival,
    shortest first by true runtimes, and shortest first by `predicted_s`.

    Parameters
    ----------
    jobs : DataFrame of shape (n, 14), ``data.schemas.JOBS``
    predicted_s : float64 array of shape (n,), > 0
        What was told at each job's submission (s).
    load : float
        GPU time over the pool's time until the last arrival; sets the number of cards.

    Returns
    -------
    float or None
        1 is as good as knowing all runtimes, 0 as bad as knowing none. None where no job holds a
        card, or the oracle gains nothing.

    Notes
    -----
    The measure of Hu et al., "Characterization and Prediction of Deep Learning Workloads in
    Large-Scale GPU Datacenters", SC 2021, relative to its oracle.
    """
    # Who of one moment comes first is decided by what jobs are, not by the order of their rows.
    order = jobs.reset_index(drop=True).sort_values(["submit_time", "job_id", "attempt"]).index
    jobs, predicted_s = jobs.iloc[order], predicted_s[order]
    held = jobs["gpus"].ge(1) & jobs["runtime_s"].gt(0)
    arrivals = jobs.loc[held, "submit_time"]
    if not arrivals.max() > arrivals.min():  # no job, or no span of arrivals: no load
        return None
    trace = trace_of(jobs.assign(job_id=np.arange(len(jobs)).astype(str)))
    at = np.array(trace.job_ids, np.int64)
    quotas = quotas_for_load(trace, load)
    predicted = PredictedFirst(predicted_s[at], _lines(jobs)[at])
    fifo, oracle, ours = (
        _mean_wait_s(trace, quotas, policy) for policy in (FifoPooled(), sjf_oracle(), predicted)
    )
    return (fifo - ours) / (fifo - oracle) if fifo > oracle else None


def _lines(jobs: pd.DataFrame) -> NDArray[np.uint64]:
    columns = jobs.assign(kind=jobs["job_key"].fillna(""))
    return row_digests([columns[name] for name in ("user", *REQUEST)])


def _mean_wait_s(trace: Trace, quotas: tuple[int, ...], policy: ReplayPolicy) -> float:
    simulation = Simulation(trace, Site(sum(quotas), quotas), ALONE)
    simulation.run(policy)
    return float(Outcome.of(simulation).queueing_delay_s.mean())
