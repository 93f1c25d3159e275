"""Finished jobs as training tables: nothing mislabelled, nothing dropped."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np
import pandas as pd

from data.domain import FinishedJob, Outcome
from data.placement import STRANGER
from data.schemas import MEMORY_RUNS, PROFILING_RUNS, checked
from features.exposure import WHOLE, Exposure, exposure, lone_neighbour
from features.profiles import proven_exclusive
from pipelines.labelling.audit_noise import repeat_sd
from pipelines.labelling.audit_rules import AuditRules
from pipelines.labelling.labels import baselines
from pipelines.labelling.segment_labels import SegmentedRun, SegmentLabel, segment_labels
from pipelines.retraining.run_rows import (
    DescribedRuns,
    Neighbourhood,
    described,
    is_mostly_alone,
    neighbourhood,
    run_id,
)

PRODUCTION = "production"
LEAST_NOISE = 0.01  # of a run's time: a few equal repeats prove no more
PEAK = "gpu_mem_peak_mib"
NEIGHBOURHOOD = ("neighbour_key", "neighbour_overlap", "jct_s")

Baselines = Mapping[tuple[str, str], float]


@dataclass(frozen=True, slots=True)
class _Baseline:
    """What jobs take alone (s), and how much of that is chance."""

    by_key: Baselines
    noise_sd: float


def production_runs(jobs: Sequence[FinishedJob], known: pd.DataFrame) -> pd.DataFrame:
    """Return every finished job as one profiling run.

    Parameters
    ----------
    jobs : sequence of FinishedJob
    known : DataFrame, ``data.schemas.PROFILING_RUNS``
        Runs from before: they name families, and their exclusive runs count for baselines.

    Returns
    -------
    DataFrame, ``data.schemas.PROFILING_RUNS``, one row a job, in the order of `jobs`
        ``jct_s`` is the runtime. A job that met nobody is an exclusive run with its signals,
        proven exclusive if its segments cover the run. A job that met exactly one neighbour, and
        was alone for the rest, has the time alone subtracted as work done. Where neighbours
        changed, the equations of all runs of the job are solved together, and a run that they
        make clear is one beside the neighbour that they make clear (``segment_labels``). Any
        other is named after the neighbour with which it was longest alone, with the share of
        that time as ``neighbour_overlap``: low where neighbours changed, so that the audit
        quarantines it.

    Notes
    -----
    With baseline B, seconds alone E and seconds beside the neighbour C, the work left for the
    shared part is B - E, hence slowdown = C / (B - E). It is used where a baseline is known and
    the shared work is at least half of B: the relative error of B grows by B / (B - E). As
    everywhere, the same job key on the same GPU model is taken to be the same work.

    Examples
    --------
    >>> from data.domain import Outcome, Segment
    >>> alone = (Segment(0, 10, "g0", "A100"),)
    >>> mixed = (Segment(20, 24, "g0", "A100"), Segment(24, 36, "g0", "A100", ("bert",)))
    >>> jobs = [FinishedJob("1", 1, "u", "q", "ncf", 1, 0, 0, 10, Outcome.OK, alone),
    ...     FinishedJob("2", 1, "u", "q", "ncf", 1, 0, 20, 36, Outcome.OK, mixed)]
    >>> nothing = pd.DataFrame(columns=PROFILING_RUNS.names)
    >>> production_runs(jobs, nothing)[["neighbour_key", "neighbour_overlap", "jct_s"]].values
    array([[nan, nan, 10.0], ['bert', 1.0, 20.0]], dtype=object)
    """
    return settled_runs(described(jobs), known)


def settled_runs(runs: DescribedRuns, known: pd.DataFrame) -> pd.DataFrame:
    """Return `production_runs` of jobs that were described before.

    Parameters
    ----------
    runs : DescribedRuns
    known : DataFrame, ``data.schemas.PROFILING_RUNS``
    """
    rows = runs.rows
    families = _families(known)
    if families:
        rows = rows.assign(
            family=rows["job_key"].map(families).fillna(rows["family"]).astype("str")
        )
    if not any(map(_needs_baseline, runs.exposures)):
        return rows
    frames = [frame for frame in (known, rows) if len(frame)]
    everything = pd.concat(frames, ignore_index=True)
    exclusive = everything[proven_exclusive(everything)]
    baseline = _Baseline(_alone_s(exclusive), _noise_sd(exclusive))
    told = _told(runs.jobs, runs.exposures, known, baseline)
    return _with_neighbours(rows, runs, baseline.by_key, told)


def production_memory_runs(jobs: Sequence[FinishedJob]) -> pd.DataFrame:
    """Return the finished jobs whose structure and memory peak are known.

    Parameters
    ----------
    jobs : sequence of FinishedJob

    Returns
    -------
    DataFrame, ``data.schemas.MEMORY_RUNS``
        Only jobs that were alone for at least half their run: signals are measured while alone,
        and a peak of a small part would teach the model to promise too little memory.
    """
    rows = [_memory_row(job, found) for job in jobs if _is_watched(job, found := exposure(job))]
    return checked(pd.DataFrame(rows, columns=MEMORY_RUNS.names), MEMORY_RUNS, "job log")


def _needs_baseline(found: Exposure) -> bool:
    """Whether a run was not beside one neighbour, or nobody, throughout."""
    is_plain = len(found.neighbours) == 1 and not found.crowded_s and found.exclusive_s == 0
    return bool(found.neighbours) and not is_plain


def _alone_s(exclusive: pd.DataFrame) -> Baselines:
    alone = baselines(exclusive, "jct_s")["alone"]
    keys = alone.index.to_frame(index=False)
    return dict(zip(zip(keys["job_key"], keys["gpu_model"], strict=True), alone, strict=True))


def _with_neighbours(
    rows: pd.DataFrame,
    runs: DescribedRuns,
    by_key: Baselines,
    told: Mapping[str, SegmentLabel],
) -> pd.DataFrame:
    """Return the rows with what baselines tell of runs whose neighbours came and went."""
    columns = {name: rows[name].to_numpy(dtype=object) for name in NEIGHBOURHOOD}
    for at, (job, found) in enumerate(zip(runs.jobs, runs.exposures, strict=True)):
        if not _needs_baseline(found):
            continue
        baseline_s = by_key.get((job.job_key, found.gpu_model))
        beside = neighbourhood(found, baseline_s)
        label = told.get(run_id(job))
        if label is not None and baseline_s is not None:
            beside = Neighbourhood(label.neighbour_key, 1.0, label.slowdown * baseline_s)
        for name in NEIGHBOURHOOD:
            columns[name][at] = getattr(beside, name)
    return checked(rows.assign(**columns), PROFILING_RUNS, "job log")


def _told(
    jobs: Sequence[FinishedJob],
    exposures: Sequence[Exposure],
    known: pd.DataFrame,
    baseline: _Baseline,
) -> dict[str, SegmentLabel]:
    """Return what the runs with changing neighbours tell, by run id."""
    asked = [
        _asks(job, found, baseline.by_key.get((job.job_key, found.gpu_model)))
        for job, found in zip(jobs, exposures, strict=True)
    ]
    if not any(asked):
        return {}
    own = (
        SegmentedRun(run_id(job), job.job_key, found.gpu_model, found.together_s, is_asked)
        for job, found, is_asked in zip(jobs, exposures, asked, strict=True)
        if job.outcome is Outcome.OK and _is_whole(found) and STRANGER not in found.neighbours
    )
    labels = segment_labels([*_known_runs(known), *own], baseline.noise_sd)
    return {label.run_id: label for label in labels}


def _asks(job: FinishedJob, found: Exposure, baseline_s: float | None) -> bool:
    """Whether only other runs can tell what a run with neighbours says."""
    if baseline_s is None or job.outcome is not Outcome.OK or not _is_whole(found):
        return False
    if STRANGER in found.neighbours:
        return False
    return _needs_baseline(found) and lone_neighbour(found, baseline_s) is None


def _is_whole(found: Exposure) -> bool:
    return sum(found.together_s.values()) >= WHOLE * found.runtime_s > 0


def _known_runs(known: pd.DataFrame) -> Iterator[SegmentedRun]:
    """Yield the runs from before that were beside the same neighbour, or nobody, throughout."""
    alone = proven_exclusive(known)
    beside = (known["neighbour_overlap"] >= WHOLE) & (known["outcome"] == Outcome.OK)
    used = known[(alone | beside) & (known["jct_s"] > 0)]
    met = used["neighbour_key"].map(lambda key: (str(key),), na_action="ignore")
    columns = (used["run_id"], used["job_key"], used["gpu_model"], met, used["jct_s"])
    for name, job_key, gpu_model, neighbour, jct_s in zip(*columns, strict=True):
        together = neighbour if isinstance(neighbour, tuple) else ()
        yield SegmentedRun(name, job_key, gpu_model, {together: float(jct_s)})


def _noise_sd(exclusive: pd.DataFrame) -> float:
    """Return the relative noise of a run's time, from repeated exclusive runs."""
    alone = exclusive[exclusive["jct_s"] > 0]
    found = repeat_sd(alone.assign(pace=alone["jct_s"], measure="jct_s"))
    return max(found, LEAST_NOISE) if np.isfinite(found) else AuditRules().assumed_noise_sd


def _families(known: pd.DataFrame) -> dict[str, str]:
    named = known[["job_key", "family"]].drop_duplicates("job_key")
    return dict(zip(named["job_key"].astype(str), named["family"].astype(str), strict=True))


def _is_watched(job: FinishedJob, found: Exposure) -> bool:
    described = job.structure is not None and PEAK in job.signals
    return described and is_mostly_alone(found)


def _memory_row(job: FinishedJob, found: Exposure) -> dict[str, object]:
    structure = {} if job.structure is None else asdict(job.structure)
    return {
        **structure,
        **job.signals,
        "run_id": run_id(job),
        "dataset": PRODUCTION,
        "gpu_model": found.gpu_model,
        "configuration": job.job_key,
        "outcome": str(job.outcome),
    }
