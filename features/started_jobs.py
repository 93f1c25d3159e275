"""What started jobs say, also those that still run: they last at least as long as so far."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from features.digests import Digests, column_digests
from features.finished_index import FinishedIndex
from features.window_statistics import FLOOR_S, SHORT_LOG

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

STARTED_WINDOW = 32
NEAR_S = 600.0
"""Jobs submitted within ten minutes of each other count as one batch."""

STARTED_STATISTICS = (
    "started",
    "running",
    "longest",
    "running_mean",
    "lasted_mean",
    "lasted_median",
    "lasted_last",
    "dead",
    "apart",
    "near",
    "near_mean",
    "near_running",
)


@dataclass(frozen=True, slots=True)
class Started:
    """The newest started jobs behind each of n requests, newest first; NaN where there is none.

    Attributes
    ----------
    ago_s : float64 array of shape (n, size)
        Since each job started.
    lasted_s : float64 array of shape (n, size)
        Runtime of a finished job; of one that runs, how long it has so far.
    is_running : bool array of shape (n, size)
    submit_time : float64 array of shape (n, size), seconds since 1970 UTC
    """

    ago_s: Floats
    lasted_s: Floats
    is_running: Flags
    submit_time: Floats

    def with_others(self, others: "Started") -> "Started":
        """Return the newest of both, as many as this has."""
        size = self.ago_s.shape[1]
        ago_s = np.concatenate([self.ago_s, others.ago_s], axis=1)
        order = np.argsort(np.where(np.isnan(ago_s), np.inf, ago_s), axis=1, kind="stable")
        newest = order[:, :size]

        def joined(mine: NDArray[np.generic], theirs: NDArray[np.generic]) -> NDArray[np.generic]:
            return np.take_along_axis(np.concatenate([mine, theirs], axis=1), newest, axis=1)

        return Started(
            np.asarray(joined(self.ago_s, others.ago_s), np.float64),
            np.asarray(joined(self.lasted_s, others.lasted_s), np.float64),
            np.asarray(joined(self.is_running, others.is_running), np.bool_),
            np.asarray(joined(self.submit_time, others.submit_time), np.float64),
        )


class RunningNow:
    """Jobs that run at the moment of a question and are in no log yet.

    Parameters
    ----------
    keys : uint64 array of shape (m,)
        Digest of each job's key at one level.
    running : DataFrame of shape (m, >= 3)
        ``job_id``, ``submit_time`` and ``elapsed_s``.
    """

    def __init__(self, keys: Digests, running: pd.DataFrame) -> None:
        self._names = column_digests(running["job_id"])
        self._elapsed_s = running["elapsed_s"].to_numpy(np.float64)
        self._submit_time = running["submit_time"].to_numpy(np.float64)
        self._index = FinishedIndex()
        self._index.add(keys, -self._elapsed_s, self._names, np.arange(len(running)))

    def started(self, keys: Digests, names: Digests) -> Started:
        """Return those with each row's key, without the row's own job (same ``job_id``)."""
        forever = np.full(len(keys), 1.0)
        positions, _ = self._index.window(keys, forever, STARTED_WINDOW + 1)
        seen = positions >= 0
        places = np.where(seen, positions, 0)
        seen &= self._names[places] != names[:, None]
        elapsed_s = np.where(seen, self._elapsed_s[places], np.nan)
        submit_time = np.where(seen, self._submit_time[places], np.nan)
        return Started(elapsed_s, elapsed_s, seen, submit_time)


def started_statistics(
    started: Started, submit_time: Floats, anchor_log: Floats
) -> dict[str, Floats]:
    """Summarise the started jobs behind each request.

    Parameters
    ----------
    started : Started
    submit_time : float64 array of shape (n,)
        Of the jobs that are asked about.
    anchor_log : float64 array of shape (n,)
        First guess of their log runtimes.

    Returns
    -------
    dict of the names in ``STARTED_STATISTICS`` to float64 array of shape (n,)
        ``started`` is their number, ``running`` the share that still runs, ``dead`` that which
        ended within a minute. ``longest`` and ``running_mean`` are of those that run, ``lasted_*``
        of all, ``near_*`` of those submitted within ten minutes: log seconds less the anchor.
        ``apart`` is log(1 + seconds) between the submissions of the newest and of the job.
        NaN where there is none.

    Notes
    -----
    A job that runs is a right-censored observation: left out, only the short ones of a batch
    would be seen at first. Kaplan and Meier, "Nonparametric Estimation from Incomplete
    Observations", JASA 1958.
    """
    seen = ~np.isnan(started.ago_s)
    lasted_log = np.log(np.maximum(started.lasted_s, FLOOR_S))
    running = seen & started.is_running
    ended_early = seen & ~running & (lasted_log < SHORT_LOG)
    apart_s = np.abs(started.submit_time - submit_time[:, None])
    near = seen & (apart_s < NEAR_S)
    longest = np.where(running, lasted_log, -np.inf).max(axis=1)
    any_runs = running.any(axis=1)
    return {
        "started": seen.sum(axis=1).astype(np.float64),
        "running": _share(running, seen),
        "longest": np.where(any_runs, longest, np.nan) - anchor_log,
        "running_mean": _mean(lasted_log, running) - anchor_log,
        "lasted_mean": _mean(lasted_log, seen) - anchor_log,
        "lasted_median": _median(lasted_log, seen) - anchor_log,
        "lasted_last": lasted_log[:, 0] - anchor_log,
        "dead": _share(ended_early, seen),
        "apart": np.log1p(apart_s[:, 0]),
        "near": near.sum(axis=1).astype(np.float64),
        "near_mean": _mean(lasted_log, near) - anchor_log,
        "near_running": _share(near & running, near),
    }


def _share(part: Flags, whole: Flags) -> Floats:
    return _mean(part.astype(np.float64), whole)


def _mean(values: Floats, chosen: Flags) -> Floats:
    count = chosen.sum(axis=1)
    total = np.where(chosen, values, 0.0).sum(axis=1)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def _median(values: Floats, chosen: Flags) -> Floats:
    ordered = np.sort(np.where(chosen, values, np.nan), axis=1)
    count = chosen.sum(axis=1)
    low, high = np.maximum(count - 1, 0) // 2, np.minimum(count // 2, values.shape[1] - 1)
    middle = [np.take_along_axis(ordered, at[:, None], axis=1)[:, 0] for at in (low, high)]
    return np.asarray((middle[0] + middle[1]) / 2)
