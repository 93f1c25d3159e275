"""Profiles of jobs as an operator sees them: what was measured alone, and under light sharing."""

from collections.abc import Iterable, Sequence

import pandas as pd

from data.domain import FinishedJob, Outcome
from data.joblog import JobLog, tail
from data.joblog_signals import SignalTable
from data.prometheus.job_signals import JobSignals, Sharing
from features.exposure import UNKNOWN_GPU_MODEL, exposure
from features.profiles import KEYS, profiles_by
from pipelines.retraining.run_rows import LEAST_WATCHED
from pipelines.telemetry.enriched import enriched

BY_SHARING = [*KEYS, "sharing"]
DAY_S = 86_400.0
SHOWN = ["runs", "gpu_util_mean", "sm_active_mean", "gpu_mem_peak_mib", "signal_spread"]


def profiles_by_sharing(jobs: Sequence[FinishedJob], found: Iterable[JobSignals]) -> pd.DataFrame:
    """Return the profile of each job key on each GPU model in each sharing class.

    Parameters
    ----------
    jobs : sequence of FinishedJob
        With the signals that their scheduler measured.
    found : iterable of JobSignals
        What telemetry says of them.

    Returns
    -------
    DataFrame, ordered by ``job_key``, ``gpu_model`` and ``sharing``
        Medians of signals, ``runs``, ``signal_spread`` and ``newest_time``. Class ``exclusive``
        holds jobs that were alone for at least half their run, and only that time; ``light``
        describes cards, and no model is trained from it.
    """
    found = list(found)
    light = {(o.job_id, o.attempt): o for o in found if o.sharing is Sharing.LIGHT}
    rows = []
    for job in enriched(jobs, found):
        seen = exposure(job)
        if job.outcome is not Outcome.OK or seen.gpu_model == UNKNOWN_GPU_MODEL:
            continue
        if job.signals and seen.exclusive_s >= LEAST_WATCHED * seen.runtime_s > 0:
            rows.append(_row(job, seen.gpu_model, Sharing.EXCLUSIVE, job.signals))
        if beside := light.get((job.job_id, job.attempt)):
            rows.append(_row(job, seen.gpu_model, Sharing.LIGHT, beside.signals))
    measured = pd.DataFrame(rows)
    return profiles_by(measured, BY_SHARING) if len(measured) else pd.DataFrame(columns=BY_SHARING)


def stored_profiles(joblog_url: str) -> pd.DataFrame:
    """Return the profiles of every job in a log, as `profiles_by_sharing`.

    Raises
    ------
    JobLogError
        If the job log cannot be read now.
    """
    with JobLog(joblog_url) as log, SignalTable(joblog_url) as table:
        return profiles_by_sharing([job for _, job in tail(log)], table.all())


def profiles_text(table: pd.DataFrame, now: float) -> str:
    """Return profiles as a table for people; the age is of the newest run."""
    if table.empty:
        return "no profile yet: no finished job was measured while it was alone"
    shown = table.reindex(columns=[*BY_SHARING, *SHOWN])
    shown["age_days"] = (now - table["newest_time"]) / DAY_S
    return shown.round(3).to_string(index=False, na_rep="-")


def _row(
    job: FinishedJob, gpu_model: str, sharing: Sharing, signals: dict[str, float]
) -> dict[str, object]:
    return {
        "job_key": job.job_key,
        "gpu_model": gpu_model,
        "sharing": str(sharing),
        "family": job.structure.family if job.structure else job.job_key,
        "finish_time": job.finish_time,
        **signals,
    }
