"""What finished jobs teach the interference model."""

from collections.abc import Sequence
from functools import reduce

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pipelines.labelling.audit import audited
from pipelines.recipes import interference_values, made
from pipelines.retraining.finished_jobs import FinishedJobs
from pipelines.retraining.lessons import Answers, Trained, ends
from pipelines.retraining.production import settled_runs
from pipelines.retraining.regret import neighbour_losses
from pipelines.retraining.run_rows import RunMemory
from serving.inference.bundle import Bundle
from serving.inference.interference import slowdown_estimates

MODEL = "colocast-interference"
PAIR = ["job_key", "neighbour_key", "gpu_model"]


class InterferenceLesson:
    """Audited slowdowns from profiling runs and from jobs of the log; see ``lessons.Lesson``.

    Each version brings the profiles it was trained with, and is asked with those: a pair that
    was never profiled then is a cold start to it.

    Parameters
    ----------
    known : DataFrame, ``data.schemas.PROFILING_RUNS``
    finished : FinishedJobs
    seed : int
    memory : RunMemory, optional
        Of earlier lessons on the same log: what it knows need not be described again.

    Notes
    -----
    A label is a ratio of times at one speed, whatever a driver did between the two runs.
    """

    models = (MODEL,)

    def __init__(
        self,
        known: pd.DataFrame,
        finished: FinishedJobs,
        seed: int,
        memory: RunMemory | None = None,
    ) -> None:
        self._known, self._finished, self._seed = known, finished, seed
        self._memory = memory or RunMemory()
        runs = self._runs(finished)
        entries = pd.Series(finished.sequences, index=runs["run_id"], dtype="int64")
        labels = audited(of_shared_jobs(_together(known, runs))).labels
        labels = labels.assign(sequence=labels["run_id"].map(entries)).dropna(subset="sequence")
        self._labels = labels.sort_values("sequence").reset_index(drop=True)
        self.sequences = self._labels["sequence"].to_numpy(np.int64)
        self.groups = _joined(self._labels, *PAIR)

    def trained(self, until: int) -> Sequence[Trained]:
        """Return the model and its report; jobs after `until` have no part in it."""
        return made("interference", self._tables(until), self._seed)

    def trial(self, until: int, /) -> Sequence[Bundle]:
        """Return the model that `trained` makes, without intervals and report."""
        return [interference_values(self._tables(until), self._seed)]

    def _tables(self, until: int) -> dict[str, pd.DataFrame]:
        runs = _together(self._known, self._runs(self._finished.until(until)))
        return {"profiling_runs": runs}

    def _runs(self, finished: FinishedJobs) -> pd.DataFrame:
        return settled_runs(self._memory.described(finished.jobs), self._known)

    def answers(self, bundles: Sequence[Bundle], after: int) -> Answers:
        """Return errors of the log slowdown, and whether the interval held it."""
        asked = self._labels[self.sequences > after]
        value, lower, upper = ends(slowdown_estimates(bundles[0], asked[PAIR]))
        observed = asked["slowdown"].to_numpy(np.float64)
        within = (lower <= observed) & (observed <= upper)
        errors = np.abs(np.log(value / observed))
        jobs = _joined(asked, "job_key", "gpu_model").tolist()
        return Answers(errors, within.astype(np.float64), neighbour_losses(jobs, value, observed))


def of_shared_jobs(runs: pd.DataFrame) -> pd.DataFrame:
    """Return the runs of job keys that ever ran beside another: no others have a part in a label.

    Parameters
    ----------
    runs : DataFrame, ``data.schemas.PROFILING_RUNS``
    """
    beside = runs[runs["neighbour_key"].notna()]
    keys = pd.concat([beside["job_key"], beside["neighbour_key"]]).unique()
    return runs[runs["job_key"].isin(keys)]


def _together(known: pd.DataFrame, runs: pd.DataFrame) -> pd.DataFrame:
    frames = [frame for frame in (known, runs) if len(frame)]
    return pd.concat(frames, ignore_index=True) if frames else known


def _joined(table: pd.DataFrame, *columns: str) -> NDArray[np.str_]:
    """Return each row's texts as one."""
    first, *others = (table[name].astype("object") for name in columns)
    return reduce(lambda left, right: left + "\n" + right, others, first).to_numpy(dtype=np.str_)
