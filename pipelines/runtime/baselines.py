"""What anyone could say of a runtime without a model; each knows only jobs that had finished."""

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from features.digests import row_digests
from features.finished_index import FinishedIndex
from features.requests import limit_log
from features.window_statistics import FLOOR_S

Floats = NDArray[np.float64]
WINDOW = 31
DAY_S = 86_400.0
UNKNOWN_S = 3600.0

GROUP = ["user", "queue", "gpus", "cpus", "mem_mib", "limit_s"]
BASELINES = ("constant", "user_median", "user_last_two", "group_median", "requested_limit")
"""The median of all; of the user's newest 31; the mean of the user's last two (Tsafrir et al.,
"Backfilling Using System-Generated Predictions Rather than User Runtime Estimates", TPDS 2007);
the median of the user's newest 31 with the same request; the limit itself."""


def baseline_estimates(jobs: pd.DataFrame, as_of: Floats) -> pd.DataFrame:
    """Return what each baseline says of each job at a moment.

    Parameters
    ----------
    jobs : DataFrame of shape (n, 14), ``data.schemas.JOBS``
    as_of : float64 array of shape (n,), seconds since 1970 UTC

    Returns
    -------
    DataFrame of shape (n, 5), index as `jobs`, seconds, > 0
        ``BASELINES``. Who has no history gets the constant, and the constant is an hour before
        anything has finished; a group without history gets its user's median; a job without a
        limit gets the constant.
    """
    constant = _constant(jobs, as_of)
    user = _newest_runtimes(jobs, ["user"], as_of)
    group = _newest_runtimes(jobs, GROUP, as_of)
    user_median = _or_else(_median(user), constant)
    columns = {
        "constant": constant,
        "user_median": user_median,
        "user_last_two": _or_else(_mean_of_two(user), constant),
        "group_median": _or_else(_median(group), user_median),
        "requested_limit": _or_else(np.exp(limit_log(jobs["limit_s"]).to_numpy()), constant),
    }
    return pd.DataFrame(columns, index=jobs.index)


def _constant(jobs: pd.DataFrame, as_of: Floats) -> Floats:
    order = np.argsort(jobs["finish_time"].to_numpy(), kind="stable")
    runtime_s = _runtime_s(jobs)[order]
    day = np.floor(as_of / DAY_S) * DAY_S
    days, inverse = np.unique(day, return_inverse=True)
    finished = np.searchsorted(jobs["finish_time"].to_numpy()[order], days)
    medians = [float(np.median(runtime_s[:n])) if n else UNKNOWN_S for n in finished]
    return np.asarray(np.array(medians)[inverse])


def _newest_runtimes(jobs: pd.DataFrame, key: list[str], as_of: Floats) -> Floats:
    index = FinishedIndex()
    keys = row_digests([jobs[name] for name in key])
    identities = row_digests([jobs["job_id"], jobs["attempt"]])
    index.add(keys, jobs["finish_time"].to_numpy(), identities, np.arange(len(jobs)))
    positions, _ = index.window(keys, as_of, WINDOW)
    return np.where(positions >= 0, _runtime_s(jobs)[positions], np.nan)


def _median(runtime_s: Floats) -> Floats:
    seen = (~np.isnan(runtime_s)).sum(axis=1)
    ordered = np.sort(runtime_s, axis=1)
    low, high = np.maximum(seen - 1, 0) // 2, seen // 2
    return (_at(ordered, low) + _at(ordered, np.minimum(high, WINDOW - 1))) / 2


def _mean_of_two(runtime_s: Floats) -> Floats:
    first, second = runtime_s[:, 0], runtime_s[:, 1]
    return (first + _or_else(second, first)) / 2


def _at(values: Floats, places: NDArray[np.int64]) -> Floats:
    return np.asarray(np.take_along_axis(values, places[:, None], axis=1)[:, 0])


def _or_else(values: Floats, otherwise: Floats) -> Floats:
    return np.where(np.isnan(values), otherwise, values)


def _runtime_s(jobs: pd.DataFrame) -> Floats:
    return np.asarray(np.maximum(jobs["runtime_s"].to_numpy(np.float64), FLOOR_S))
