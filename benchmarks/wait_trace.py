"""Jobs of a real log, with what a runtime model said of each when it was submitted."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from data.domain import Estimate, JobRequest, Source
from data.settings import Settings
from pipelines.initial_tables import initial_jobs
from pipelines.progress import progress
from pipelines.replaying.trace import quotas_for_load, trace_of
from pipelines.runtime.evaluate import DAY_S
from pipelines.runtime.prequential import Questions, prequential_estimates
from pipelines.runtime.rows import job_rows
from scheduler_client.policy.view import Queue
from scheduler_client.replay.trace import Trace

NEED_MIB = 1000
"""Of each job on each of its cards; logs do not tell, and nothing is shared here."""

Arrival = tuple[JobRequest, float, Estimate]
"""A job, its runtime (s), and what is predicted of that."""


@dataclass(frozen=True, slots=True)
class Site:
    """A cluster of equal cards, and the queues that share them."""

    cards: int
    queues: tuple[Queue, ...]


@dataclass(frozen=True, slots=True)
class Log:
    """What arrives, in order of submission, and the cluster that bears it."""

    arriving: list[Arrival]
    trace: Trace

    def site(self, load: float) -> Site:
        """Return the cluster on which the jobs are an offered load, in one cohort."""
        quotas = quotas_for_load(self.trace, load)
        named = zip(self.trace.queues, quotas, strict=True)
        return Site(sum(quotas), tuple(Queue(name, float(n), "all") for name, n in named))


def from_log(path: Path, from_time_s: float) -> Log:
    """Return the GPU jobs submitted from a moment on, each as a daily refitted model saw it.

    Parameters
    ----------
    path : Path
        A file or folder of jobs that the importers read; those submitted earlier are history.
    from_time_s : float
        Seconds since 1970, UTC.
    """
    jobs = initial_jobs(Settings.from_mapping({}, Path.cwd()), path)
    jobs = jobs.sort_values("submit_time", kind="stable").reset_index(drop=True)
    asked = (jobs["submit_time"] >= from_time_s) & (jobs["gpus"] >= 1) & (jobs["runtime_s"] > 0)
    rows, mask = job_rows(jobs), asked.to_numpy()
    moments = jobs["submit_time"].to_numpy(np.float64)[mask]
    questions = {"": Questions(rows.at_submission.features[mask], moments)}
    told = prequential_estimates(
        rows, questions, DAY_S, 0, lambda days: progress(days, "fitting runtimes")
    )[""]
    chosen = jobs[mask]
    return Log(_arriving(chosen, told.loc[chosen.index]), trace_of(chosen))


def _arriving(jobs: pd.DataFrame, told: pd.DataFrame) -> list[Arrival]:
    first = float(jobs["submit_time"].iloc[0])
    columns = zip(jobs.itertuples(), told["value"], told["lower"], told["upper"], strict=True)
    return [
        (
            JobRequest(
                job.job_id, job.user, job.queue, job.job_key, job.submit_time - first,
                int(job.gpus), NEED_MIB,
            ),
            float(job.runtime_s),
            Estimate(float(value), float(lower), float(upper), "log/1", Source.CLUSTER_MODEL),
        )
        for job, value, lower, upper in columns
    ]  # fmt: skip
