"""Measure runtime prediction on a job log, honestly: by finish time, beside every baseline."""

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from data.errors import SettingError
from features.history import runtime_log
from features.history_groups import HISTORY_GROUPS, history_groups
from features.window_statistics import FLOOR_S
from pipelines.judged import RUNTIME, Judged, Keep, dropped, worst_coverage
from pipelines.runtime.baselines import BASELINES, baseline_estimates
from pipelines.runtime.metrics import Metrics, runtime_metrics
from pipelines.runtime.ordering import oracle_gain
from pipelines.runtime.prequential import Progress, Questions, prequential_estimates
from pipelines.runtime.rows import JobRows, batches, job_rows

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Row = dict[str, str | float | int | None]
DAY_S = 86_400.0
HOUR_S = 3600.0
REFIT_EVERY_S = DAY_S
CLUSTER_MODEL = "cluster_model"
AT_SUBMISSION = ""
ORDERED = "gpu"
DRAWN = ("all", "gpu")
AT_START = "@start"
AFTER_AN_HOUR = "@1h"


def evaluate_runtime(  # noqa: PLR0913 - one argument a choice, most have defaults
    jobs: pd.DataFrame,
    from_time_s: float | None = None,
    *,
    seed: int = 0,
    every_s: float = REFIT_EVERY_S,
    progress: Progress = iter,
    keep: Keep = dropped,
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
    keep : callable
        Given the model's own answers for ``all`` and ``gpu`` jobs at each moment, grouped by how
        many jobs of their user had finished.

    Returns
    -------
    list of dict
        One a split: ``all``, ``gpu``, and ``jobs_0`` to ``jobs_>100`` by the user's finished
        jobs, of the GPU jobs alone ``gpu_jobs_0`` to ``gpu_jobs_>100``. Plain splits know what
        was known at the job's submission; those that end in ``@start`` what was known when it
        started, when the scheduler decides; those in ``@1h`` are jobs that have run for an hour
        then. Each is followed by ``<split>/cluster_model``
        and ``<split>/<baseline>``. Keys: ``split``, those of
        ``pipelines.runtime.metrics.runtime_metrics``, ``baseline_r2`` (log R² of the best
        baseline on that split), ``ceiling_r2`` (log R² of knowing each batch's mean),
        ``coverage_90_worst`` (share inside the interval that nine tenths of the users and queues
        with at least thirty jobs reach) and ``oracle_gain`` (of ``gpu`` alone: the share of the
        oracle's gain in mean wait, see ``pipelines.runtime.ordering``). None where undefined.

    Raises
    ------
    SettingError
        If no job was submitted from `from_time_s` on.
    """
    jobs = jobs.sort_values("submit_time", kind="stable").reset_index(drop=True)
    asked = jobs["submit_time"].ge(-np.inf if from_time_s is None else from_time_s).to_numpy()
    if not asked.any():
        raise SettingError(f"found no job submitted from {from_time_s} on, wanted at least one")
    finished = job_rows(jobs)
    questions = _questions(jobs, finished, asked)
    estimates = prequential_estimates(finished, questions, every_s, seed, progress)
    table: list[Row] = []
    for suffix, question in questions.items():
        index = question.features.index
        answers = {"": estimates[suffix], CLUSTER_MODEL: estimates[f"{suffix}/{CLUSTER_MODEL}"]}
        known_time = jobs["submit_time" if suffix == AT_SUBMISSION else "start_time"]
        baselines = baseline_estimates(jobs, known_time.to_numpy(np.float64)).loc[index]
        baselines = baselines.clip(lower=max(question.elapsed_s, FLOOR_S))
        answers |= {name: baselines[[name]].set_axis(["value"], axis=1) for name in BASELINES}
        for split, mask in _splits(jobs.loc[index], question).items():
            rows = _rows(split + suffix, jobs.loc[index][mask], _masked(answers, mask))
            if split + suffix == ORDERED:
                _add_gains(rows, jobs.loc[index][mask], _masked(answers, mask))
            table += rows
            if split in DRAWN:
                asked_of = question.features[mask]
                keep(_judged(split + suffix, jobs.loc[index][mask], answers[""][mask], asked_of))
    return table


def _judged(split: str, jobs: pd.DataFrame, answer: pd.DataFrame, features: pd.DataFrame) -> Judged:
    rows = answer[["value", "lower", "upper"]].assign(
        observed=np.maximum(jobs["runtime_s"].to_numpy(np.float64), FLOOR_S),
        group="user with " + history_groups(features) + " finished",
    )
    return Judged(split, RUNTIME, rows.reset_index(drop=True), grouped_by="history")


def _add_gains(rows: list[Row], jobs: pd.DataFrame, answers: dict[str, pd.DataFrame]) -> None:
    for row, answer in zip(rows, answers.values(), strict=True):
        row["oracle_gain"] = oracle_gain(jobs, answer["value"].to_numpy(np.float64))


def _questions(jobs: pd.DataFrame, finished: JobRows, asked: Flags) -> dict[str, Questions]:
    submit_time, start_time = (jobs[name].to_numpy() for name in ("submit_time", "start_time"))
    still = asked & jobs["runtime_s"].gt(HOUR_S).to_numpy()
    at_submission, at_start = finished.at_submission.features, finished.at_start.features
    questions = {
        AT_SUBMISSION: Questions(at_submission[asked], submit_time[asked]),
        AT_START: Questions(at_start[asked], start_time[asked]),
        AFTER_AN_HOUR: Questions(at_start[still], start_time[still] + HOUR_S, HOUR_S),
    }
    return {name: question for name, question in questions.items() if len(question.features)}


def _splits(jobs: pd.DataFrame, question: Questions) -> dict[str, Flags]:
    groups = history_groups(question.features)
    splits = {"all": np.ones(len(jobs), dtype=bool), "gpu": jobs["gpus"].gt(0).to_numpy()}
    if question.elapsed_s == 0:
        by_history = {f"jobs_{name}": groups.eq(name).to_numpy() for name in HISTORY_GROUPS}
        splits |= by_history
        splits |= {f"gpu_{name}": mask & splits["gpu"] for name, mask in by_history.items()}
    return {name: mask for name, mask in splits.items() if mask.any()}


def _masked(answers: dict[str, pd.DataFrame], mask: Flags) -> dict[str, pd.DataFrame]:
    return {name: frame[mask] for name, frame in answers.items()}


def _rows(split: str, jobs: pd.DataFrame, answers: dict[str, pd.DataFrame]) -> list[Row]:
    runtime_s = jobs["runtime_s"].to_numpy(np.float64)
    scored = {name: runtime_metrics(runtime_s, answer) for name, answer in answers.items()}
    known = [scored[name]["r2_log"] for name in BASELINES]
    best = max((value for value in known if value is not None), default=None)
    more: Metrics = {"baseline_r2": best, "ceiling_r2": batch_ceiling(jobs), "oracle_gain": None}
    return [
        {
            "split": f"{split}/{name}" if name else split,
            **metrics,
            "coverage_90_worst": _worst_coverage(jobs, answers[name]),
            **more,
        }
        for name, metrics in scored.items()
    ]


def _worst_coverage(jobs: pd.DataFrame, answer: pd.DataFrame) -> float | None:
    if "upper" not in answer.columns:
        return None
    measured = np.maximum(jobs["runtime_s"].to_numpy(np.float64), FLOOR_S)
    found = (worst_coverage(measured, answer, jobs[group]) for group in ("user", "queue"))
    return min((share for share in found if share is not None), default=None)


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
