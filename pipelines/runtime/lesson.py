"""What finished jobs teach the two runtime models."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
import pandas as pd

from data.jobs_frame import jobs_frame
from features.history import RuntimeHistory
from pipelines.recipes import made
from pipelines.retraining.finished_jobs import FinishedJobs
from pipelines.retraining.job_audit import audited_jobs
from pipelines.retraining.lessons import Answers, Trained, ends
from pipelines.retraining.once import RowsOnce
from pipelines.retraining.regret import queue_losses
from pipelines.runtime.rows import FinishedRows, batches, rows_as_of
from serving.inference.bundle import Bundle
from serving.inference.runtime import runtime_estimates

QUARANTINE = "quarantine.csv"


class RuntimeLesson:
    """Both runtime models from jobs known before and jobs of the log; see ``lessons.Lesson``.

    They answer as one, the user's correction on top of the cluster model, so they are judged
    and promoted as one. Jobs are predicted as of their submission. Those that the audit
    quarantines neither teach nor judge; they are listed with the reason beside each version.

    Parameters
    ----------
    known : DataFrame, ``data.schemas.JOBS``
    finished : FinishedJobs
    seed : int
    memory : RowsOnce, optional
        Of earlier lessons on the same log: what it knows need not be read again.
    """

    models = ("colocast-runtime-cluster", "colocast-runtime-user")

    def __init__(
        self,
        known: pd.DataFrame,
        finished: FinishedJobs,
        seed: int,
        memory: RowsOnce | None = None,
    ) -> None:
        self._known, self._seed = known, seed
        jobs = finished.jobs
        logged = (memory or RowsOnce()).of(jobs, lambda start: jobs_frame(jobs[start:]))
        self._audit = audited_jobs(logged)
        self._logged = logged[self._audit.kept].reset_index(drop=True)
        self.sequences = np.asarray(finished.sequences, dtype=np.int64)[self._audit.kept]
        self.groups = batches(self._logged)
        self._asked: dict[int, FinishedRows] = {}

    def trained(self, until: int) -> Sequence[Trained]:
        """Return the cluster model and the user model with their reports."""
        learnt = self._logged[self.sequences <= until]
        found = made("runtime", {"jobs": self._all(learnt)}, self._seed)
        quarantine = self._audit.quarantine.to_csv(index=False)
        return [
            (bundle, replace(report, documents={**report.documents, QUARANTINE: quarantine}))
            for bundle, report in found
        ]

    def trial(self, _until: int, /) -> Sequence[Bundle]:
        """Return nothing: the values come of the calibration, too."""
        return []

    def answers(self, bundles: Sequence[Bundle], after: int) -> Answers:
        """Return errors of log runtime, with the history that was known at each submission."""
        rows = self._rows_after(after)
        cluster, user = bundles
        estimates = runtime_estimates(cluster, user, rows.features, np.zeros(len(rows)))
        runtime_s = np.exp(rows.runtime_log)
        value, lower, upper = ends(estimates)
        within = (lower <= runtime_s) & (runtime_s <= upper)
        errors = np.abs(np.log(value) - rows.runtime_log)
        return Answers(errors, within.astype(np.float64), queue_losses(value, runtime_s))

    def _rows_after(self, after: int) -> FinishedRows:
        """Return the jobs after an entry as of their submission; several versions are asked."""
        if after not in self._asked:
            fresh = self._logged[self.sequences > after]
            self._asked[after] = rows_as_of("submit_time", fresh, self._history)
        return self._asked[after]

    @cached_property
    def _history(self) -> RuntimeHistory:
        """What all jobs tell: most of them are not asked about."""
        history = RuntimeHistory()
        history.observe(self._all(self._logged))
        return history

    def _all(self, logged: pd.DataFrame) -> pd.DataFrame:
        frames = [frame for frame in (self._known, logged) if len(frame)]
        return pd.concat(frames, ignore_index=True) if frames else self._known
