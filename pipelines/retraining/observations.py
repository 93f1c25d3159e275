"""Finished jobs as observations to watch: how the champions answered them, and of what kind."""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from data.domain import FinishedJob
from pipelines.retraining.finished_jobs import FinishedJobs
from pipelines.retraining.lessons import Lesson
from pipelines.retraining.speeds import relative_times
from pipelines.retraining.watch import Observations
from serving.inference.bundle import Bundle

LABELS = ("gpu_model", "family", "user")
FEWEST_KNOWN = 20  # jobs that say what is usual, before anything can be called new
MINUTE_S = 60.0


def observations(
    lesson: Lesson,
    champions: Sequence[Bundle],
    finished: FinishedJobs,
    after: int,
    slower: Sequence[float] | None = None,
) -> Observations:
    """Return the usable jobs after entry `after`, as their champions answered them.

    Parameters
    ----------
    lesson : Lesson
        Made of `finished`.
    champions : sequence of Bundle
        Of the lesson's models, in their order.
    finished : FinishedJobs
    after : int
        The champions learnt up to this entry, or an earlier cause was dealt with there.
    slower : sequence of float, optional
        `relative_times` of `finished`, where these are known.

    Returns
    -------
    Observations
        What one user submitted of one job key in one minute is one batch.
    """
    at = _positions(lesson, finished, after)
    jobs = [finished.jobs[i] for i in at]
    answers = lesson.answers(champions, after)
    signals = {"error": answers.errors, "coverage": 1.0 - answers.covered}
    times = relative_times(finished.jobs) if slower is None else np.array(slower, dtype=np.float64)
    signals |= {"slower": times[at], "faster": -times[at]}
    known = [*map(_kind, finished.until(after).jobs), *_profiled(champions)]
    if len(known) >= FEWEST_KNOWN:
        unseen = _unseen([_kind(job) for job in jobs], known)
        # A job key without a structure is no family: there is always one more of those.
        described = np.array([job.structure is not None for job in jobs], dtype=np.bool_)
        signals["input"] = np.where(described, unseen, np.nan)
    return Observations(
        sequences=lesson.sequences[lesson.sequences > after],
        finish_time=np.array([job.finish_time for job in jobs], dtype=np.float64),
        signals=signals,
        labels={name: _labels(jobs, name) for name in LABELS},
        batches=_batches(jobs),
    )


def part_labels(lesson: Lesson, finished: FinishedJobs, after: int) -> dict[str, NDArray[np.str_]]:
    """Return GPU model, family and user of each of the lesson's rows after entry `after`."""
    jobs = [finished.jobs[at] for at in _positions(lesson, finished, after)]
    return {name: _labels(jobs, name) for name in LABELS}


def family_of(job: FinishedJob) -> str:
    """Return the family of a job: its structure's, else its job key."""
    return job.structure.family if job.structure else job.job_key


def gpu_model_of(job: FinishedJob) -> str:
    """Return the GPU models of a job's cards, joined by ``+``; ``unknown`` without segments."""
    return "+".join(sorted({segment.gpu_model for segment in job.segments})) or "unknown"


def _positions(lesson: Lesson, finished: FinishedJobs, after: int) -> NDArray[np.intp]:
    known = np.asarray(finished.sequences, dtype=np.int64)
    return np.searchsorted(known, lesson.sequences[lesson.sequences > after])


def _kind(job: FinishedJob) -> tuple[str, str]:
    return family_of(job), gpu_model_of(job)


def _profiled(champions: Iterable[Bundle]) -> list[tuple[str, str]]:
    tables = [bundle.tables["profiles"] for bundle in champions if "profiles" in bundle.tables]
    return [
        (str(family), str(gpu_model))
        for table in tables
        for family, gpu_model in zip(table["family"], table["gpu_model"], strict=True)
    ]


def _unseen(
    jobs: Sequence[tuple[str, str]], known: Sequence[tuple[str, str]]
) -> NDArray[np.float64]:
    families, models = {family for family, _ in known}, {model for _, model in known}
    return np.array([float(f not in families or m not in models) for f, m in jobs])


def _labels(jobs: Sequence[FinishedJob], name: str) -> NDArray[np.str_]:
    value = _VALUES[name]
    return np.array([value(job) for job in jobs], dtype=np.str_)


def _user_of(job: FinishedJob) -> str:
    return job.user


_VALUES = {"gpu_model": gpu_model_of, "family": family_of, "user": _user_of}


def _batches(jobs: Sequence[FinishedJob]) -> NDArray[np.generic]:
    names = [f"{j.user}\n{j.job_key}\n{j.submit_time // MINUTE_S}" for j in jobs]
    return np.array(names, dtype=np.str_)
