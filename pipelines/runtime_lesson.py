"""What finished jobs teach the two runtime models."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from data.jobs_frame import jobs_frame
from features.history import FLOOR_S
from pipelines.challenge import Answers, Trained, ends
from pipelines.finished_jobs import FinishedJobs
from pipelines.runtime import finished_rows, train_runtime
from pipelines.runtime_fit import CLUSTER_MODEL, USER_MODEL
from serving.bundle import Bundle
from serving.runtime import runtime_estimates

MINUTE_S = 60.0


class RuntimeLesson:
    """Both runtime models from jobs known before and jobs of the log; see ``challenge.Lesson``.

    They answer as one, the user's correction on top of the cluster model, so they are judged
    and promoted as one. Jobs are predicted as of their submission.

    Parameters
    ----------
    known : DataFrame, ``data.schemas.JOBS``
    finished : FinishedJobs
    seed : int
    """

    models = (CLUSTER_MODEL, USER_MODEL)

    def __init__(self, known: pd.DataFrame, finished: FinishedJobs, seed: int) -> None:
        self._known, self._seed = known, seed
        self._logged = jobs_frame(finished.jobs)
        self.sequences = np.asarray(finished.sequences, dtype=np.int64)
        # What one user submits of one kind within a minute ends alike: a batch is one group.
        minute = (self._logged["submit_time"] // MINUTE_S).astype("int64").astype("str")
        batch = self._logged["user"] + "\n" + self._logged["job_key"].fillna("") + "\n" + minute
        self.groups = batch.to_numpy(dtype=np.str_)

    def trained(self, until: int) -> Sequence[Trained]:
        """Return the cluster model and the user model with their reports."""
        learnt = self._logged[self.sequences <= until]
        cluster, user, cluster_report, user_report = train_runtime(self._all(learnt), self._seed)
        return [(cluster, cluster_report), (user, user_report)]

    def answers(self, bundles: Sequence[Bundle], after: int) -> Answers:
        """Return errors of log runtime, with the history that was known at each submission."""
        fresh = np.concatenate([np.zeros(len(self._known), np.bool_), self.sequences > after])
        rows = finished_rows(self._all(self._logged)).where(fresh)
        cluster, user = bundles
        estimates = runtime_estimates(cluster, user, rows.features, np.zeros(len(rows)))
        runtime_s = np.maximum(np.exp(rows.runtime_log), FLOOR_S)
        value, lower, upper = ends(estimates)
        within = (lower <= runtime_s) & (runtime_s <= upper)
        return Answers(np.abs(np.log(value) - rows.runtime_log), within.astype(np.float64))

    def _all(self, logged: pd.DataFrame) -> pd.DataFrame:
        frames = [frame for frame in (self._known, logged) if len(frame)]
        return pd.concat(frames, ignore_index=True) if frames else self._known
