"""Measure runtime prediction on a job log, honestly: by finish time, beside every baseline."""

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from data.errors import SettingError
from features.history import runtime_log
from features.history_groups import HISTORY_GROUPS, history_groups
from pipelines.prequential import Progress, Questions, prequential_estimates
from pipelines.runtime_baselines import BASELINES, baseline_estimates
from pipelines.runtime_metrics import Metrics, runtime_metrics
from pipelines.runtime_rows import batches, job_rows

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Row = dict[str, str | float | int | None]
DAY_S = 86_400.0
REFIT_EVERY_S = DAY_S
CLUSTER_MODEL = "cluster_model"
AT_START = "@start"


def evaluate_runtime(
    jobs: pd.DataFrame,
    from_time_s: float | None = None,
    *,
    seed: int = 0,
    every_s: float = REFIT_EVERY_S,
    progress: Progress = iter,
) -> list[Row]:
    """Measure predictions by models that are refitted on a schedule and know no future.

    Parameters
    ----------
    jobs : DataFrame of shape (n, 14), ``data.schemas.JOBS``
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
        One a split: ``all``, ``gpu``, and ``jobs_0`` to ``jobs_>100`` by the user's finished
        jobs. Plain splits know what was known at the job's submission; those that end in
        ``@start`` what was known when it started, when the scheduler decides. Each is followed
        by ``<split>/cluster_model`` and ``<split>/<baseline>``. Keys: ``split``, those of
        ``pipelines.runtime_metrics.runtime_metrics``, ``baseline_r2`` (log R² of the best
        baseline on that split) and ``ceiling_r2`` (log R² of knowing each batch's mean).

    Raises
    ------
    SettingError
        If no job was submitted from `from_time_s` on.
    """
    jobs = jobs.sort_values("submit_time", kind="stable").reset_index(drop=True)
    asked = jobs["submit_time"].ge(-np.inf if from_time_s is None else from_time_s).to_numpy()
    if not asked.any():
        raise SettingError(f"found no job submitted from {from_time_s} on, wanted at least one")
    moments = {"": jobs["submit_time"].to_numpy(), AT_START: jobs["start_time"].to_numpy()}
    finished = job_rows(jobs)
    rows = {"": finished.at_submission, AT_START: finished.at_start}
    questions = {
        name: Questions(rows[name].features[asked], moment[asked])
        for name, moment in moments.items()
    }
    estimates = prequential_estimates(finished, questions, every_s, seed, progress)
    table: list[Row] = []
    for suffix, moment in moments.items():
        answers = {"": estimates[suffix], CLUSTER_MODEL: estimates[f"{suffix}/{CLUSTER_MODEL}"]}
        baselines = baseline_estimates(jobs, moment)[asked]
        answers |= {name: baselines[[name]].set_axis(["value"], axis=1) for name in BASELINES}
        splits = _splits(jobs[asked], questions[suffix].features)
        for split, mask in splits.items():
            table += _rows(split + suffix, jobs[asked][mask], _masked(answers, mask))
    return table


def _splits(jobs: pd.DataFrame, features: pd.DataFrame) -> dict[str, Flags]:
    groups = history_groups(features)
    splits = {"all": np.ones(len(jobs), dtype=bool), "gpu": jobs["gpus"].gt(0).to_numpy()}
    splits |= {f"jobs_{name}": groups.eq(name).to_numpy() for name in HISTORY_GROUPS}
    return {name: mask for name, mask in splits.items() if mask.any()}


def _masked(answers: dict[str, pd.DataFrame], mask: Flags) -> dict[str, pd.DataFrame]:
    return {name: frame[mask] for name, frame in answers.items()}


def _rows(split: str, jobs: pd.DataFrame, answers: dict[str, pd.DataFrame]) -> list[Row]:
    runtime_s = jobs["runtime_s"].to_numpy(np.float64)
    scored = {name: runtime_metrics(runtime_s, answer) for name, answer in answers.items()}
    known = [scored[name]["r2_log"] for name in BASELINES]
    best = max((value for value in known if value is not None), default=None)
    more: Metrics = {"baseline_r2": best, "ceiling_r2": batch_ceiling(jobs)}
    return [
        {"split": f"{split}/{name}" if name else split, **metrics, **more}
        for name, metrics in scored.items()
    ]


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
    logs = runtime_log(jobs)
    within = pd.Series(logs).groupby(batches(jobs)).agg(["var", "size"])
    repeated = within[within["size"] > 1]
    total = float(np.var(logs))
    if repeated.empty or total == 0:
        return None
    noise = float(np.average(repeated["var"], weights=repeated["size"]))
    return max(0.0, 1 - noise / total)
