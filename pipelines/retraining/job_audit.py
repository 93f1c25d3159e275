"""Finished jobs whose runtime cannot be what it says; quarantined with a reason, never dropped."""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from features.digests import row_digests

WORK = ["user", "queue", "job_key", "gpus", "limit_s"]
NEAREST = 9  # runs of the same work, half before and half after
FEWEST = 6
LEAST_OFF = 1.0  # log: beyond 2.7 times, whatever the spread
SPREADS = 8.0  # of the nearest runs' median absolute deviation
LARGEST_SPREAD = 0.25  # log; work that varies more does not repeat
OVER_LIMIT = 2.0
ENFORCED = 0.98  # share of limited jobs that end within their limit, where one is enforced


class JobFault(StrEnum):
    """Why a finished job may not teach a runtime."""

    OVER_LIMIT = "over_limit"
    UNLIKE_ITS_REPEATS = "unlike_its_repeats"


@dataclass(frozen=True, slots=True)
class JobAudit:
    """What the audit found.

    Attributes
    ----------
    kept : bool array of shape (n,)
    quarantine : DataFrame
        ``job_id``, ``attempt``, ``user``, ``reason`` (`JobFault`) and ``evidence``.
    """

    kept: NDArray[np.bool_]
    quarantine: pd.DataFrame


def audited_jobs(jobs: pd.DataFrame) -> JobAudit:
    """Return which finished jobs may teach runtimes.

    Parameters
    ----------
    jobs : DataFrame, ``data.schemas.JOBS``

    Notes
    -----
    A job over twice its limit, where others are killed at theirs, was not measured right. A run
    that differs from those of the same work just before **and** just after it is wrong or was not
    the same work; a user whose jobs are shorter from now on differs from those before only, and
    is believed once half of the nearest runs say so.
    """
    limit_s = jobs["limit_s"].to_numpy(np.float64)
    runtime_s = jobs["runtime_s"].to_numpy(np.float64)
    over = _over_limit(runtime_s, limit_s)
    usual_s = _usual_s(jobs)
    unlike = ~np.isnan(usual_s) & ~over
    evidence = np.where(over, _texts(runtime_s, "with a limit of", limit_s), "")
    evidence = np.where(unlike, _texts(runtime_s, "among runs of", usual_s), evidence)
    reason = np.where(over, str(JobFault.OVER_LIMIT), str(JobFault.UNLIKE_ITS_REPEATS))
    found = jobs[["job_id", "attempt", "user"]].assign(reason=reason, evidence=evidence)
    return JobAudit(~(over | unlike), found[over | unlike].reset_index(drop=True))


def _texts(
    runtime_s: NDArray[np.float64], words: str, other_s: NDArray[np.float64]
) -> NDArray[np.str_]:
    pairs = zip(runtime_s.tolist(), other_s.tolist(), strict=True)
    return np.array([f"{ran:.0f} s {words} {other:.0f} s" for ran, other in pairs], dtype=np.str_)


def _over_limit(runtime_s: NDArray[np.float64], limit_s: NDArray[np.float64]) -> NDArray[np.bool_]:
    limited = ~np.isnan(limit_s)
    over = limited & (runtime_s > OVER_LIMIT * np.where(limited, limit_s, np.inf))
    is_enforced = limited.any() and 1 - over.sum() / limited.sum() >= ENFORCED
    return over if is_enforced else np.zeros_like(over)


def _usual_s(jobs: pd.DataFrame) -> NDArray[np.float64]:
    """Return what repeats take, in seconds, for each run that is unlike them; NaN for others."""
    usual = np.full(len(jobs), np.nan)
    order = np.argsort(jobs["finish_time"].to_numpy(np.float64), kind="stable")
    logs = np.log(np.maximum(jobs["runtime_s"].to_numpy(np.float64), 0.1))
    works = row_digests([jobs[name] for name in WORK])
    is_known = (jobs["job_key"].notna() & (jobs["job_key"] != "")).to_numpy()
    order = order[is_known[order]]
    for places in pd.Series(order).groupby(works[order]).agg(list):
        if len(places) >= FEWEST:
            at = np.array(places)
            usual[at] = _unlike(logs[at])
    return usual


def _unlike(logs: NDArray[np.float64]) -> NDArray[np.float64]:
    width = min(NEAREST, len(logs))
    starts = np.clip(np.arange(len(logs)) - width // 2, 0, len(logs) - width)
    near = logs[starts[:, None] + np.arange(width)]
    middle = np.median(near, axis=1)
    spread = np.median(np.abs(near - middle[:, None]), axis=1)
    off = np.abs(logs - middle)
    is_unlike = (spread <= LARGEST_SPREAD) & (off > np.maximum(LEAST_OFF, SPREADS * spread))
    return np.where(is_unlike, np.exp(middle), np.nan)
