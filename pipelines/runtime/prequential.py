"""Predict each job when it was asked for, by models that only know jobs that had finished."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pipelines.runtime.boosting import DEFAULT_BOOSTING, Boosting
from pipelines.runtime.fit import FEWEST_JOBS, fitted_models
from pipelines.runtime.rows import JobRows
from serving.inference.bundle import Bundle
from serving.inference.runtime import runtime_estimates

Floats = NDArray[np.float64]
GROWTH = 1.02
Progress = Callable[[Sequence[float]], Iterable[float]]


@dataclass(frozen=True, slots=True)
class Questions:
    """Jobs to be estimated, each at a moment of its own.

    Attributes
    ----------
    features : DataFrame of shape (n, n_columns)
        ``features.history.ROW_COLUMNS`` as of each job's moment.
    asked_time : float64 array of shape (n,), seconds since 1970 UTC
    elapsed_s : float
        How long each job has been running by then.
    """

    features: pd.DataFrame
    asked_time: Floats
    elapsed_s: float = 0.0


def prequential_estimates(  # noqa: PLR0913, PLR0917 - one argument a choice
    finished: JobRows,
    questions: Mapping[str, Questions],
    every_s: float,
    seed: int,
    progress: Progress = iter,
    boosting: Boosting = DEFAULT_BOOSTING,
) -> dict[str, pd.DataFrame]:
    """Estimate runtimes as they would have been told, with models refitted on a schedule.

    Parameters
    ----------
    finished : JobRows
        All that is ever learnt from; a fit sees those that had finished before it.
    questions : mapping of str to Questions
        Under the names of the result.
    every_s : float
        Seconds between two fits, > 0; the first is when the first question is asked. A fit is
        left out where the finished jobs have grown by less than a fiftieth since the last.
    seed : int
    progress : callable
        Wraps the sequence of moments at which models are fitted, such as a progress bar.
    boosting : Boosting

    Returns
    -------
    dict of str to DataFrame
        As ``serving.inference.runtime.runtime_estimates``, indexed as ``Questions.features``;
        besides, what the cluster model alone says: ``<name>/cluster_model``. A question that came
        before ten jobs had finished is answered without a model: ``source=cold_start``.

    Notes
    -----
    Test first, then train: Dawid, "Present Position and Potential Developments: Some Personal
    Views: Statistical Theory: The Prequential Approach", JRSS A 1984. By finish time, as a job
    teaches nothing before its end.
    """
    parts: dict[str, list[pd.DataFrame]] = {}
    fitted_on, cluster, user = 0, None, None
    for moment in progress(_moments(questions, every_s)):
        known = int((finished.at_start.finish_time < moment).sum())
        if known >= max(FEWEST_JOBS, GROWTH * fitted_on):
            fitted_on = known
            cluster, user = _models(finished.finished_before(moment), seed, boosting)
        for name, asked in questions.items():
            due = (asked.asked_time >= moment) & (asked.asked_time < moment + every_s)
            rows = asked.features[due]
            elapsed_s = np.full(len(rows), asked.elapsed_s)
            for key, layer in ((name, user), (f"{name}/cluster_model", None)):
                estimates = runtime_estimates(cluster, layer, rows, elapsed_s)
                parts.setdefault(key, []).append(estimates)
    return {
        key: pd.concat(estimates).loc[questions[key.split("/")[0]].features.index]
        for key, estimates in parts.items()
    }


def _moments(questions: Mapping[str, Questions], every_s: float) -> Sequence[float]:
    first = min(float(asked.asked_time.min()) for asked in questions.values())
    last = max(float(asked.asked_time.max()) for asked in questions.values())
    return [first + step * every_s for step in range(int((last - first) // every_s) + 1)]


def _models(known: JobRows, seed: int, boosting: Boosting) -> tuple[Bundle, Bundle]:
    models = fitted_models(known, seed, boosting)
    return models.cluster, models.user
