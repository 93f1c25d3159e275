"""Finished jobs as training tables: nothing mislabelled, nothing dropped."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import compress
from urllib.parse import quote

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

PRODUCTION = "production"
LEAST_WATCHED = 0.5  # share of a run that must be exclusive for its signals to describe it
LEAST_NOISE = 0.01  # of a run's time: a few equal repeats prove no more
PEAK = "gpu_mem_peak_mib"

Baselines = Mapping[tuple[str, str], float]


@dataclass(frozen=True, slots=True)
class _Baseline:
    """What jobs take alone (s), and how much of that is chance."""

    by_key: Baselines
    noise_sd: float


@dataclass(frozen=True, slots=True)
class _Neighbourhood:
    """The part of a profiling run that says beside whom it ran, and how fast."""

    neighbour_key: str | None
    neighbour_overlap: float | None
    jct_s: float
    is_exclusive: bool = False


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
    exposures = [exposure(job) for job in jobs]
    families = _families(known)
    by_itself = [not found.neighbours for found in exposures]
    plain = _table(
        list(compress(jobs, by_itself)), list(compress(exposures, by_itself)), families, {}
    )
    known_alone = known[proven_exclusive(known)]
    frames = [frame for frame in (known_alone, plain) if len(frame)] or [plain]
    everything = pd.concat(frames, ignore_index=True)
    exclusive = everything[proven_exclusive(everything)]
    alone = baselines(exclusive, "jct_s")["alone"]
    keys = alone.index.to_frame(index=False)
    by_key = dict(zip(zip(keys["job_key"], keys["gpu_model"], strict=True), alone, strict=True))
    told = _told(jobs, exposures, known, _Baseline(by_key, _noise_sd(exclusive)))
    return _table(jobs, exposures, families, by_key, told)


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


def run_id(job: FinishedJob) -> str:
    """Return the id of the profiling run that `job` becomes; without spaces, as labels need."""
    return f"job:{quote(job.job_id, safe='')}:{job.attempt}"


def _table(
    jobs: Sequence[FinishedJob],
    exposures: Sequence[Exposure],
    families: Mapping[str, str],
    by_key: Baselines,
    told: Mapping[str, SegmentLabel] | None = None,
) -> pd.DataFrame:
    rows = []
    for job, found in zip(jobs, exposures, strict=True):
        baseline_s = by_key.get((job.job_key, found.gpu_model))
        beside = _neighbourhood(found, baseline_s)
        label = (told or {}).get(run_id(job))
        if label is not None and baseline_s is not None:
            jct_s = label.slowdown * baseline_s
            beside = replace(
                beside, neighbour_key=label.neighbour_key, neighbour_overlap=1.0, jct_s=jct_s
            )
        rows.append(_row(job, found, families, beside))
    return checked(pd.DataFrame(rows, columns=PROFILING_RUNS.names), PROFILING_RUNS, "job log")


def _row(
    job: FinishedJob, found: Exposure, families: Mapping[str, str], beside: _Neighbourhood
) -> dict[str, object]:
    said = job.structure.family if job.structure else job.job_key
    alone = {} if beside.neighbour_key else job.signals
    if beside.neighbour_key and job.signals and _is_mostly_alone(found):
        alone = {**job.signals, "exclusive_s": found.exclusive_s}
    return {
        "run_id": run_id(job),
        "job_key": job.job_key,
        "family": families.get(job.job_key, said),
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


def _neighbourhood(found: Exposure, baseline_s: float | None) -> _Neighbourhood:
    if not found.neighbours:
        whole = found.runtime_s > 0 and found.exclusive_s >= WHOLE * found.runtime_s
        return _Neighbourhood(None, None, found.runtime_s, whole)
    if baseline_s is not None and found.exclusive_s > 0:
        one = lone_neighbour(found, baseline_s)
        if one is not None:
            return _Neighbourhood(one[0], 1.0, one[1] * baseline_s)
    met = found.beside_s or found.crowded_s
    longest = max(met, key=lambda key: met[key])
    is_told = found.runtime_s > 0 and STRANGER not in found.neighbours
    overlap = found.beside_s.get(longest, 0.0) / found.runtime_s if is_told else 0.0
    return _Neighbourhood(longest, min(overlap, 1.0), found.runtime_s)


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
    is_plain = len(found.neighbours) == 1 and not found.crowded_s and found.exclusive_s == 0
    return bool(found.neighbours) and not is_plain and lone_neighbour(found, baseline_s) is None


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
    return described and _is_mostly_alone(found)


def _is_mostly_alone(found: Exposure) -> bool:
    return found.exclusive_s >= LEAST_WATCHED * found.runtime_s > 0


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
