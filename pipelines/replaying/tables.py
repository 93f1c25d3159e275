"""The tables of a comparison of policies."""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from pipelines.replaying.metrics import (
    mean_jct_by_queue,
    paired_difference,
    progress,
    worst_against,
    worst_user_against,
)
from pipelines.replaying.pairs import banded
from pipelines.replaying.result import Result
from pipelines.replaying.run import Replay

HOUR_S = 3600.0
FIXED = "fifo_fixed"


def metrics_table(results: Mapping[str, Result]) -> pd.DataFrame:
    """Return all metrics, a column a policy; one that a policy lacks is empty.

    With ``worst_queue_jct_ratio`` and ``worst_user_jct_ratio``, the worst queue's (user's) mean JCT
    over that under fixed quotas, where ``fifo_fixed`` was replayed too.
    """
    table = pd.DataFrame({name: result.metrics for name, result in results.items()})
    if FIXED in results:
        fixed = results[FIXED].outcome
        worst = {name: worst_against(r.outcome, fixed) for name, r in results.items()}
        table.loc["worst_queue_jct_ratio"] = pd.Series(worst)
        users = {name: worst_user_against(r.outcome, fixed) for name, r in results.items()}
        table.loc["worst_user_jct_ratio"] = pd.Series(users)
    return table


def differences(results: Mapping[str, Result], seed: int) -> pd.DataFrame:
    """Return each policy less the first one, paired by job, with bootstrap intervals (s)."""
    first, *others = results
    base = results[first].outcome
    rows = {}
    for name in others:
        ours = results[name].outcome
        jct_s = ours.jct_s - base.jct_s
        rows[name] = [
            *paired_difference(ours.jct_s, base.jct_s, seed),
            *paired_difference(ours.queueing_delay_s, base.queueing_delay_s, seed),
            float((jct_s < -1).mean()),
            float((jct_s > 1).mean()),
        ]
    columns = [
        *("mean JCT", "from", "to"),
        *("mean delay", "from ", "to "),
        *("jobs sooner", "jobs later"),
    ]
    return pd.DataFrame.from_dict(rows, orient="index", columns=columns)


def by_queue(replay: Replay, results: Mapping[str, Result]) -> pd.DataFrame:
    """Return the mean JCT of each queue (hours), a column a policy."""
    hours = {name: mean_jct_by_queue(r.outcome) / HOUR_S for name, r in results.items()}
    frame = pd.DataFrame(hours, index=pd.Index(replay.trace.queues, name="queue"))
    frame.insert(0, "nominal quota", replay.site.quotas)
    if FIXED in results:
        fixed = results[FIXED].outcome
        ratios = [worst_against(result.outcome, fixed) for result in results.values()]
        frame.loc["worst / fixed quota"] = [float("nan"), *ratios]
    return frame


def progress_by_queue(replay: Replay, results: Mapping[str, Result]) -> pd.DataFrame:
    """Return GPU time owed over GPUs × JCT, of each queue with jobs, a column a policy."""
    present = np.unique(replay.trace.queue)
    names = [replay.trace.queues[queue] for queue in present]
    return pd.DataFrame({n: progress(r.outcome) for n, r in results.items()}, index=names)


def bands(results: Mapping[str, Result]) -> dict[str, pd.DataFrame]:
    """Return, by policy that colocated, its colocations by predicted and true slowdown."""
    return {name: banded(r.pairs) for name, r in results.items() if len(r.pairs)}
