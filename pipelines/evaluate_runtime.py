"""Measure runtime prediction on a job log, honestly: by finish time, beside every baseline."""

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from data.errors import SettingError
from features.digests import row_digests
from features.history import FLOOR_S, LEVELS, MINUTE_S
from features.history_groups import HISTORY_GROUPS, history_groups
from pipelines.prequential import Progress, Schedule, prequential_estimates
from pipelines.runtime import finished_rows
from pipelines.runtime_baselines import BASELINES, baseline_estimates
from pipelines.runtime_metrics import Metrics, runtime_metrics

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Row = dict[str, str | float | int | None]
DAY_S = 86_400.0
REFIT_EVERY_S = 3 * DAY_S


def evaluate_runtime(
    jobs: pd.DataFrame,
    from_time_s: float | None = None,
    *,
    seed: int = 0,
    every_s: float = REFIT_EVERY_S,
    progress: Progress = iter,
) -> list[Row]:
    """Measure predictions made at submission, by models refitted on a schedule.

    Parameters
    ----------
    jobs : DataFrame, ``data.schemas.JOBS``
    from_time_s : float, optional
        Measure jobs submitted from this moment on (s since 1970, UTC); those before are history.
    seed : int
    every_s : float
        Seconds between two fits.
    progress : callable
        Wraps the sequence of refits, such as a progress bar.

    Returns
    -------
    list of dict
        One a split: ``all``, ``gpu``, ``jobs_0`` to ``jobs_>100`` (the user's finished jobs at
        submission), each followed by ``<split>/<baseline>``. Keys: ``split``, those of
        ``pipelines.runtime_metrics.runtime_metrics``, ``baseline_r2`` (log R² of the best
        baseline on that split) and ``ceiling_r2`` (log R² of knowing each batch's mean).

    Raises
    ------
    SettingError
        If no job was submitted from `from_time_s` on.
    """
    jobs = jobs.sort_values("submit_time", kind="stable").reset_index(drop=True)
    submit_time = jobs["submit_time"].to_numpy(np.float64)
    if not len(jobs) or (from_time_s is not None and submit_time[-1] < from_time_s):
        raise SettingError(f"found no job submitted from {from_time_s} on, wanted at least one")
    rows = finished_rows(jobs)
    schedule = Schedule(every_s, from_time_s)
    estimates = prequential_estimates(submit_time, rows, schedule, seed, progress)
    baselines = baseline_estimates(jobs)
    asked = jobs.loc[estimates.index]
    splits = _splits(asked, rows.features.loc[estimates.index])
    return [
        row
        for name, mask in splits.items()
        if mask.any()
        for row in _rows(name, asked[mask], estimates[mask], baselines.loc[asked.index][mask])
    ]


def _splits(jobs: pd.DataFrame, features: pd.DataFrame) -> dict[str, Flags]:
    groups = history_groups(features)
    splits = {"all": np.ones(len(jobs), dtype=bool), "gpu": jobs["gpus"].gt(0).to_numpy()}
    return splits | {f"jobs_{name}": groups.eq(name).to_numpy() for name in HISTORY_GROUPS}


def _rows(
    split: str, jobs: pd.DataFrame, estimates: pd.DataFrame, baselines: pd.DataFrame
) -> list[Row]:
    runtime_s = jobs["runtime_s"].to_numpy(np.float64)
    scored = {
        name: runtime_metrics(runtime_s, baselines[[name]].set_axis(["value"], axis="columns"))
        for name in BASELINES
    }
    known = [m["r2_log"] for m in scored.values() if m["r2_log"] is not None]
    more: Metrics = {"baseline_r2": max(known, default=None), "ceiling_r2": batch_ceiling(jobs)}
    rows: list[Row] = [{"split": split, **runtime_metrics(runtime_s, estimates), **more}]
    return rows + [{"split": f"{split}/{name}", **m, **more} for name, m in scored.items()]


def batch_ceiling(jobs: pd.DataFrame) -> float | None:
    """Return the log R² of who knows the mean of every batch, the unbiased way.

    Identical submissions of one minute cannot be told apart: what they differ by is noise.

    Parameters
    ----------
    jobs : DataFrame, ``data.schemas.JOBS``

    Returns
    -------
    float or None
        In [0, 1]; None where no batch has two jobs, or nothing varies.
    """
    minute = np.floor(jobs["submit_time"].astype("float64") / MINUTE_S)
    columns = jobs.assign(submit_minute=minute)
    batches = row_digests([columns[name] for name in LEVELS["batch"]])
    runtime_log = np.log(np.maximum(jobs["runtime_s"].to_numpy(np.float64), FLOOR_S))
    within = pd.Series(runtime_log).groupby(batches).agg(["var", "size"])
    repeated = within[within["size"] > 1]
    total = float(np.var(runtime_log))
    if repeated.empty or total == 0:
        return None
    noise = float(np.average(repeated["var"], weights=repeated["size"]))
    return max(0.0, 1 - noise / total)
