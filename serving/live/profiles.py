"""Profiles of jobs that ran alone since the model was trained: known after one run."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from statistics import median

import pandas as pd

from data.domain import FinishedJob, Outcome
from data.schemas import PROFILING_RUNS
from features.profiles import profiles

MOST_KEYS = 10_000
KEPT_RUNS = 16  # a job key; medians hardly move beyond

ProfileKey = tuple[str, str]
"""Job key, GPU model."""


@dataclass(slots=True)
class LiveProfiles:
    """Exclusive runs of finished jobs, as profiles in the form that training makes.

    ``observe`` a finished job, read ``table``. The table is a new object only after a job key's
    first, second, fourth, eighth, … run: what is computed from it may be kept until then.

    Attributes
    ----------
    runs : mapping of (job key, GPU model) to rows of ``data.schemas.PROFILING_RUNS``
    table : DataFrame, ``data.schemas.PROFILES``
    """

    runs: dict[ProfileKey, list[dict[str, object]]] = field(default_factory=dict)
    table: pd.DataFrame = field(default_factory=lambda: _profiles([]))

    def alone_s(self, job_key: str, gpu_model: str) -> float | None:
        """Return the median runtime of a job's runs alone (s), or None without one."""
        runs = self.runs.get((job_key, gpu_model))
        return median(float(str(run["jct_s"])) for run in runs) if runs else None

    def observe(self, jobs: Iterable[FinishedJob]) -> None:
        """Remember the jobs that ran alone, on one GPU model, and were measured."""
        is_news = False
        for job in jobs:
            gpu_models = {segment.gpu_model for segment in job.segments}
            if not _was_alone(job) or len(gpu_models) != 1:
                continue
            key = (job.job_key, gpu_models.pop())
            if key not in self.runs and len(self.runs) >= MOST_KEYS:
                continue
            runs = self.runs.setdefault(key, [])
            if len(runs) < KEPT_RUNS:
                runs.append(_run(job, key[1]))
                is_news |= len(runs).bit_count() == 1
        if is_news:
            self.table = _profiles(run for runs in self.runs.values() for run in runs)


def with_live_profiles(known: pd.DataFrame, live: pd.DataFrame) -> pd.DataFrame:
    """Return `known`, and below it what only `live` knows.

    Parameters
    ----------
    known, live : DataFrame, ``data.schemas.PROFILES``

    Examples
    --------
    >>> known = pd.DataFrame({"job_key": ["a"], "gpu_model": ["x"], "gpu_util_mean": [0.5]})
    >>> live = pd.DataFrame({"job_key": ["a", "b"], "gpu_model": "x", "gpu_util_mean": [0.1, 0.2]})
    >>> with_live_profiles(known, live)["gpu_util_mean"].tolist()
    [0.5, 0.2]
    """
    keys = ["job_key", "gpu_model"]
    is_known = pd.MultiIndex.from_frame(live[keys]).isin(pd.MultiIndex.from_frame(known[keys]))
    fresh = live.loc[~is_known].reindex(columns=known.columns)
    if fresh.empty:
        return known
    return pd.concat([known, fresh.astype(known.dtypes)], ignore_index=True)


def _was_alone(job: FinishedJob) -> bool:
    alone = all(not segment.neighbour_keys for segment in job.segments)
    return alone and bool(job.signals) and job.outcome is Outcome.OK and job.gpus == 1


def _run(job: FinishedJob, gpu_model: str) -> dict[str, object]:
    signals: Mapping[str, float] = job.signals
    return {
        "run_id": f"{job.job_id}/{job.attempt}",
        "job_key": job.job_key,
        "family": job.structure.family if job.structure else job.job_key,
        "gpu_model": gpu_model,
        "is_exclusive": True,
        "jct_s": job.runtime_s,
        "outcome": str(job.outcome),
        **signals,
    }


def _profiles(runs: Iterable[Mapping[str, object]]) -> pd.DataFrame:
    frame = pd.DataFrame(list(runs), columns=PROFILING_RUNS.names)
    numbers = {
        column.name: "float64" for column in PROFILING_RUNS.columns if column.kind == "number"
    }
    return profiles(frame.astype(numbers))
