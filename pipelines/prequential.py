"""Predict each job at its submission, by models that only know jobs that had finished by then."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pipelines.runtime_fit import FEWEST_JOBS, FinishedRows, fitted_models
from serving.bundle import Bundle
from serving.runtime import runtime_estimates

Floats = NDArray[np.float64]
Progress = Callable[[Sequence[float]], Iterable[float]]
DAY_S = 86_400.0


@dataclass(frozen=True, slots=True)
class Schedule:
    """When models are fitted anew.

    Attributes
    ----------
    every_s : float
        Seconds between two fits, > 0.
    from_time_s : float, optional
        Jobs submitted before this moment (s since 1970, UTC) are history only.
    """

    every_s: float = DAY_S
    from_time_s: float | None = None


def prequential_estimates(
    submit_time: Floats,
    rows: FinishedRows,
    schedule: Schedule,
    seed: int,
    progress: Progress = iter,
) -> pd.DataFrame:
    """Estimate every job's runtime as it would have been told at its submission.

    Parameters
    ----------
    submit_time : float64 array of shape (n,), seconds since 1970 UTC
    rows : FinishedRows, length n
        The same jobs; ``pipelines.runtime.finished_rows``.
    schedule : Schedule
    seed : int
    progress : callable
        Wraps the sequence of moments at which models are fitted, such as a progress bar.

    Returns
    -------
    DataFrame of shape (n_estimated, 5), index of ``rows.features``
        As ``serving.runtime.runtime_estimates``, of the jobs submitted from
        ``schedule.from_time_s`` on. A job that came before the first ten had finished is
        estimated without a model: ``source=cold_start``.

    Notes
    -----
    Test first, then train: Dawid, "Present Position and Potential Developments: Some Personal
    Views: Statistical Theory: The Prequential Approach", JRSS A 1984. By finish time, as a job
    teaches nothing before its end.
    """
    parts = []
    for moment in progress(_moments(submit_time, schedule)):
        due = (submit_time >= moment) & (submit_time < moment + schedule.every_s)
        if due.any():
            models = _models(rows.where(rows.finish_time < moment), seed)
            features = rows.features[due]
            parts.append(runtime_estimates(*models, features, np.zeros(len(features))))
    return pd.concat(parts)


def _moments(submit_time: Floats, schedule: Schedule) -> Sequence[float]:
    first = submit_time.min() if schedule.from_time_s is None else schedule.from_time_s
    steps = np.floor((submit_time.max() - first) / schedule.every_s)
    return [float(first + step * schedule.every_s) for step in range(int(steps) + 1)]


def _models(known: FinishedRows, seed: int) -> tuple[Bundle | None, Bundle | None]:
    if len(known) < FEWEST_JOBS:
        return None, None
    models = fitted_models(known, seed)
    return models.cluster, models.user
