"""Each finished job as one profiling run, by what it says itself."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from urllib.parse import quote

import pandas as pd

from data.domain import FinishedJob
from data.placement import STRANGER
from data.schemas import PROFILING_RUNS, checked
from features.exposure import WHOLE, Exposure, exposure, lone_neighbour
from features.usual_speed import UsualSpeed
from pipelines.retraining.once import Maker, Once, RowsOnce

LEAST_WATCHED = 0.5  # share of a run that must be exclusive for its signals to describe it


@dataclass(frozen=True, slots=True)
class Neighbourhood:
    """The part of a profiling run that says beside whom it ran, and how fast."""

    neighbour_key: str | None
    neighbour_overlap: float | None
    jct_s: float
    is_exclusive: bool = False


@dataclass(frozen=True, slots=True)
class DescribedRuns:
    """Finished jobs, all three in the same order.

    Attributes
    ----------
    jobs : sequence of FinishedJob
    exposures : sequence of Exposure
    rows : DataFrame, ``data.schemas.PROFILING_RUNS``
        What each job says itself, without any baseline.
    """

    jobs: Sequence[FinishedJob]
    exposures: Sequence[Exposure]
    rows: pd.DataFrame


def described(jobs: Sequence[FinishedJob]) -> DescribedRuns:
    """Describe finished jobs as they are."""
    exposures = [exposure(job) for job in jobs]
    return DescribedRuns(jobs, exposures, _rows(jobs, exposures))


class RunMemory:
    """Finished jobs at the usual speed of their cards, each described once."""

    def __init__(self) -> None:
        self._runs = Once(_at_usual_speed)
        self._rows = RowsOnce()

    def described(self, jobs: Sequence[FinishedJob]) -> DescribedRuns:
        """Describe finished jobs, in the order of their log; what is known need not be again."""
        seen = self._runs.of(jobs)
        exposures = [found for _, found in seen]
        usual = [_with_signals(run, job) for (run, _), job in zip(seen, jobs, strict=True)]
        rows = self._rows.of(jobs, lambda start: _rows(usual[start:], exposures[start:]))
        return DescribedRuns(usual, exposures, rows)


def run_id(job: FinishedJob) -> str:
    """Return the id of the profiling run that `job` becomes; without spaces, as labels need."""
    return f"job:{quote(job.job_id, safe='')}:{job.attempt}"


def neighbourhood(found: Exposure, baseline_s: float | None) -> Neighbourhood:
    """Return beside whom a run was, where it is known how long the job takes alone (s) or not."""
    if not found.neighbours:
        whole = found.runtime_s > 0 and found.exclusive_s >= WHOLE * found.runtime_s
        return Neighbourhood(None, None, found.runtime_s, whole)
    if baseline_s is not None and found.exclusive_s > 0:
        one = lone_neighbour(found, baseline_s)
        if one is not None:
            return Neighbourhood(one[0], 1.0, one[1] * baseline_s)
    met = found.beside_s or found.crowded_s
    longest = max(met, key=lambda key: met[key])
    is_told = found.runtime_s > 0 and STRANGER not in found.neighbours
    overlap = found.beside_s.get(longest, 0.0) / found.runtime_s if is_told else 0.0
    return Neighbourhood(longest, min(overlap, 1.0), found.runtime_s)


def is_mostly_alone(found: Exposure) -> bool:
    """Whether the signals of a run describe the job and not its neighbours."""
    return found.exclusive_s >= LEAST_WATCHED * found.runtime_s > 0


def _at_usual_speed() -> Maker[tuple[FinishedJob, Exposure]]:
    speed = UsualSpeed()

    def seen(job: FinishedJob) -> tuple[FinishedJob, Exposure]:
        usual = speed.normal(job)
        return usual, exposure(usual)

    return seen


def _with_signals(run: FinishedJob, job: FinishedJob) -> FinishedJob:
    return run if run.signals is job.signals else replace(run, signals=job.signals)


def _rows(jobs: Sequence[FinishedJob], exposures: Sequence[Exposure]) -> pd.DataFrame:
    rows = [_row(job, found) for job, found in zip(jobs, exposures, strict=True)]
    return checked(pd.DataFrame(rows, columns=PROFILING_RUNS.names), PROFILING_RUNS, "job log")


def _row(job: FinishedJob, found: Exposure) -> dict[str, object]:
    beside = neighbourhood(found, None)
    alone = {} if beside.neighbour_key else job.signals
    if beside.neighbour_key and job.signals and is_mostly_alone(found):
        alone = {**job.signals, "exclusive_s": found.exclusive_s}
    return {
        "run_id": run_id(job),
        "job_key": job.job_key,
        "family": job.structure.family if job.structure else job.job_key,
        "gpu_model": found.gpu_model,
        "start_time": job.start_time,
        "finish_time": job.finish_time,
        "outcome": str(job.outcome),
        **alone,
        "neighbour_key": beside.neighbour_key,
        "neighbour_overlap": beside.neighbour_overlap,
        "jct_s": beside.jct_s,
        "is_exclusive": beside.is_exclusive,
    }
