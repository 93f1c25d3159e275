"""What a replay is judged by: delays, JCT, utilisation, fairness, and what sharing cost."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from scheduler_client.replay.outcome import Outcome

QUANTILES = {"median": 0.5, "p95": 0.95, "p99": 0.99, "p999": 0.999}
BANDS = (1.05, 1.1, 1.2, 1.5)
"""Edges of true slowdowns by which colocations are counted."""

STATED = r"tolerance ([0-9.]+), of neighbours ([0-9.]+)"
"""How a start's reason states the tolerances: the job's own, and that of best-effort neighbours."""

ROUNDING = 1e-3  # of the numbers in it

Floats = NDArray[np.float64]


def metrics_of(outcome: Outcome) -> dict[str, float]:
    """Return the metrics of one policy on one trace.

    Returns
    -------
    dict
        ``mean_``, ``median_``, ``p95_``, ``p99_`` and ``p999_`` of ``queueing_delay_s`` (all
        pending time, also after evictions) and ``jct_s``; ``makespan_s``; ``utilisation``;
        ``evictions``; ``lost_gpu_time_share`` (done twice, and restarts) and
        ``slowed_gpu_time_share`` (what neighbours cost), both of the GPU time owed;
        ``colocated_share`` (of jobs that ever shared a card); ``mean_colocated_slowdown`` (over
        those jobs, of their whole run); ``jain`` (index over queues of `progress`, 1 is fair);
        ``least_progress``.
    """
    delay_s, jct_s = outcome.queueing_delay_s, outcome.jct_s
    pace = progress(outcome)
    slowdown = job_slowdowns(outcome)
    slowed_s = float((outcome.slowdown_s * outcome.trace.gpus).sum())
    return {
        **_summary("queueing_delay_s", delay_s),
        **_summary("jct_s", jct_s),
        "makespan_s": outcome.makespan_s,
        "utilisation": outcome.utilisation,
        "evictions": float(outcome.evictions.sum()),
        "lost_gpu_time_share": outcome.lost_s / outcome.trace.gpu_time_s,
        "slowed_gpu_time_share": slowed_s / outcome.trace.gpu_time_s,
        "colocated_share": len(slowdown) / len(outcome.trace),
        "mean_colocated_slowdown": float(slowdown.mean()) if len(slowdown) else 1.0,
        "jain": float(pace.sum() ** 2 / (len(pace) * (pace**2).sum())),
        "least_progress": float(pace.min()),
    }


def job_slowdowns(outcome: Outcome) -> Floats:
    """Return the slowdown over its whole run of every job that ever shared a card."""
    shared = outcome.shared_s > 0
    ran_s, slowed_s = outcome.ran_s[shared], outcome.slowdown_s[shared]
    return np.asarray(ran_s / (ran_s - slowed_s), np.float64)


def progress(outcome: Outcome) -> Floats:
    """Return, by queue, the GPU time owed to its jobs over GPUs x their JCT; 1 is perfect.

    Queues without a job are left out.
    """
    trace = outcome.trace
    owed = np.bincount(trace.queue, trace.runtime_s * trace.gpus)
    taken = np.bincount(trace.queue, outcome.jct_s * trace.gpus)
    return np.asarray(owed[taken > 0] / taken[taken > 0], np.float64)


def mean_jct_by_queue(outcome: Outcome) -> Floats:
    """Return the mean JCT of each queue (s); NaN where it has no job."""
    count = np.bincount(outcome.trace.queue, minlength=len(outcome.quotas))
    total = np.bincount(outcome.trace.queue, outcome.jct_s, len(outcome.quotas))
    mean = np.full(len(count), np.nan)
    mean[count > 0] = total[count > 0] / count[count > 0]
    return mean


def worst_against(outcome: Outcome, fixed: Outcome) -> float:
    """Return the largest ratio of a queue's mean JCT to that under its own fixed quota."""
    ratio = mean_jct_by_queue(outcome) / mean_jct_by_queue(fixed)
    return float(np.nanmax(ratio))


def worst_user_against(outcome: Outcome, fixed: Outcome) -> float:
    """Return the largest ratio of a user's mean JCT to that under fixed quotas.

    NaN where the trace does not name users.
    """
    users = np.array(outcome.trace.users, dtype=object)
    if not len(users):
        return float("nan")
    both = pd.DataFrame({"ours": outcome.jct_s, "fixed": fixed.jct_s}).groupby(users).mean()
    return float((both["ours"] / both["fixed"]).max())


def colocations(events: pd.DataFrame) -> dict[str, float]:
    """Return how colocations went, from an event log: one count a card that becomes shared.

    Returns
    -------
    dict
        ``colocations``; ``above_tolerance_share``: of those that were placed under a stated
        tolerance, where the job or its neighbour is slowed by more; ``slowdown_upto_X``: share in
        which the worse of both true slowdowns is at most X.
    """
    starts = events[(events["event"] == "start") & (events["neighbour"] != "")]
    if starts.empty:
        return {"colocations": 0.0}
    both = _slowdowns_of_both(starts, events[events["event"] == "change"])
    worst = both.max(axis=1)
    shares = {f"slowdown_upto_{edge:g}": float((worst <= edge).mean()) for edge in BANDS}
    counted = {"colocations": float(len(starts))}
    stated = starts["reason"].str.extract(STATED).astype("float64").to_numpy()
    known = ~np.isnan(stated).any(axis=1)
    if not known.any():
        return counted | shares
    above = (both[known] > stated[known] + ROUNDING).any(axis=1)
    return counted | shares | {"above_tolerance_share": float(above.mean())}


def _slowdowns_of_both(starts: pd.DataFrame, changes: pd.DataFrame) -> Floats:
    """Return, for each start beside a neighbour, its slowdown and the neighbour's on that card."""
    where = ["time_s", "node", "gpu"]
    mine = starts[[*where, "neighbour", "slowdown"]].rename(columns={"neighbour": "job_id"})
    theirs = changes[[*where, "job_id", "slowdown"]].drop_duplicates(
        [*where, "job_id"], keep="last"
    )
    both = mine.merge(theirs, "left", on=[*where, "job_id"], suffixes=("", "_neighbour"))
    return both[["slowdown", "slowdown_neighbour"]].fillna(1.0).to_numpy(np.float64)


def paired_difference(
    ours: Floats, other: Floats, seed: int, resamples: int = 400
) -> tuple[float, float, float]:
    """Return the mean of ours less other's, job by job, and its 95 % interval.

    The interval is the bootstrap's over jobs: it says how far the mean rests on few of them, not
    what another trace would give.

    Parameters
    ----------
    ours, other : array of shape (n,), float64
        Of the same jobs in the same order, such as their JCT (s).
    """
    difference = ours - other
    rng = np.random.default_rng(seed)
    means = [
        difference[rng.integers(0, len(difference), len(difference))].mean()
        for _ in range(resamples)
    ]
    low, high = np.quantile(means, [0.025, 0.975])
    return float(difference.mean()), float(low), float(high)


def oracle_gain_share(
    mean_jct_s: Mapping[str, float], trivial: str, ours: str, ideal: str
) -> float:
    """Return (trivial - ours) / (trivial - ideal), on mean JCT.

    Examples
    --------
    >>> mean_jct_s = {"fifo": 10.0, "colocate": 5.5, "oracle": 5.0}
    >>> oracle_gain_share(mean_jct_s, "fifo", "colocate", "oracle")
    0.9
    """
    gain = mean_jct_s[trivial] - mean_jct_s[ideal]
    return (mean_jct_s[trivial] - mean_jct_s[ours]) / gain if gain else float("nan")


def _summary(name: str, values: Floats) -> dict[str, float]:
    found = {f"{label}_{name}": float(np.quantile(values, q)) for label, q in QUANTILES.items()}
    return {f"mean_{name}": float(values.mean()), **found}
