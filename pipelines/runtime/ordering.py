"""What runtime predictions are worth to a scheduler: shortest first, by them and by the truth."""

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from features.digests import row_digests
from features.history_levels import REQUEST
from pipelines.replaying.trace import quotas_for_load, trace_of
from pipelines.runtime.predicted_first import PredictedFirst
from pipelines.runtime.rows import batches
from scheduler_client.baselines.fifo import FifoPooled
from scheduler_client.baselines.shortest import sjf_oracle
from scheduler_client.replay.outcome import Outcome
from scheduler_client.replay.simulation import ReplayPolicy, Simulation, Site
from scheduler_client.replay.trace import Trace
from scheduler_client.replay.truth import GroundTruth

Floats = NDArray[np.float64]
LOAD = 0.9
ALONE = GroundTruth(
    np.ones((1, 1)), np.ones((1, 1), np.bool_), np.zeros((1, 1), np.bool_), np.ones(1), ("alone",)
)


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
    predicted = PredictedFirst(predicted_s[at], _likes(jobs)[at], batches(jobs)[at])
    fifo, oracle, ours = (
        _mean_wait_s(trace, quotas, policy) for policy in (FifoPooled(), sjf_oracle(), predicted)
    )
    return (fifo - ours) / (fifo - oracle) if fifo > oracle else None


def _likes(jobs: pd.DataFrame) -> NDArray[np.uint64]:
    columns = jobs.assign(kind=jobs["job_key"].fillna(""))
    return row_digests([columns[name] for name in ("user", *REQUEST)])


def _mean_wait_s(trace: Trace, quotas: tuple[int, ...], policy: ReplayPolicy) -> float:
    simulation = Simulation(trace, Site(sum(quotas), quotas), ALONE)
    simulation.run(policy)
    return float(Outcome.of(simulation).queueing_delay_s.mean())
