"""What finished jobs tell about the next one: the memory behind runtime prediction."""

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from features.anchor import anchor_log
from features.digests import row_digests
from features.finished_index import FinishedIndex
from features.requests import REQUEST_FEATURES, limit_log, request_features
from features.window_statistics import STATISTICS, Window, window_statistics

Floats = NDArray[np.float64]
Digests = NDArray[np.uint64]

REQUEST = ("queue", "gpus", "cpus", "mem_mib", "limit_s")
CLUSTER_LEVELS = {"queue": ("queue",), "request": REQUEST, "key": ("job_key",)}
USER_LEVELS = {
    "user": ("user",),
    "user_limit": ("user", "gpus", "limit_s"),
    "user_request": ("user", *REQUEST),
    "user_key": ("user", "job_key"),
    "batch": ("user", *REQUEST, "submit_minute"),
}
"""By which columns jobs count as alike, from coarse to fine.

A batch is what one user submits in one minute with one request: 249,062 jobs of DRAC are 30,898.
"""

LEVELS = {**CLUSTER_LEVELS, **USER_LEVELS}
ANCHOR = "anchor_log"
WAITED = "waited_log"
CLUSTER_FEATURES = (
    *REQUEST_FEATURES,
    WAITED,
    ANCHOR,
    *(f"{level}_{name}" for level in CLUSTER_LEVELS for name in STATISTICS),
)
"""Input of ``colocast-runtime-cluster``: nothing in it tells who asks."""

USER_FEATURES = (
    *CLUSTER_FEATURES,
    *(f"{level}_{name}" for level in USER_LEVELS for name in STATISTICS),
)
"""Input of ``colocast-runtime-user``."""

FLOOR_S = 0.1
WINDOW = 32
MINUTE_S = 60.0
CHUNK = 32_768  # rows a pass: 8 MiB a matrix, whatever is asked


class RuntimeHistory:
    """Finished jobs, kept so that what was known at any moment can be read at once.

    ``transform`` never changes it, and the same jobs give the same features in whichever order
    and chunks they were observed.

    Examples
    --------
    >>> history = RuntimeHistory()
    >>> job = pd.DataFrame({"job_id": ["1"], "attempt": [0.0], "user": ["ada"], "queue": ["q"],
    ...     "job_key": ["resnet"], "gpus": [1.0], "cpus": [4.0], "mem_mib": [64.0],
    ...     "limit_s": [600.0], "submit_time": [0.0], "finish_time": [70.0], "runtime_s": [60.0]})
    >>> history.observe(job)
    >>> same = job.assign(submit_time=100.0)
    >>> float(np.exp(history.transform(same).loc[0, "user_mean"]).round(6))
    60.0
    >>> history.transform(same, np.array([69.0]))["user_jobs"].tolist()
    [0.0]
    """

    def __init__(self) -> None:
        self._levels = {name: FinishedIndex() for name in LEVELS}
        self._runtime_log: Floats = np.empty(0)
        self._limit_log: Floats = np.empty(0)
        self._finish_time: Floats = np.empty(0)

    def __len__(self) -> int:
        return len(self._finish_time)

    def observe(self, jobs: pd.DataFrame) -> None:
        """Remember jobs that have finished.

        Parameters
        ----------
        jobs : DataFrame of shape (n, >= 11), any order
            Columns of ``data.schemas.JOBS``. Each attempt of a job is to be observed once: the
            job log is idempotent.
        """
        first = len(self)
        positions = np.arange(first, first + len(jobs))
        finish_time = jobs["finish_time"].to_numpy(np.float64)
        identities = row_digests([jobs["job_id"], jobs["attempt"].astype("float64")])
        for name, keys in _keys(jobs).items():
            self._levels[name].add(keys, finish_time, identities, positions)
        runtime_s = np.maximum(jobs["runtime_s"].to_numpy(np.float64), FLOOR_S)
        self._finish_time = np.append(self._finish_time, finish_time)
        self._runtime_log = np.append(self._runtime_log, np.log(runtime_s))
        self._limit_log = np.append(self._limit_log, limit_log(jobs["limit_s"]))

    def transform(self, requests: pd.DataFrame, as_of: Floats | None = None) -> pd.DataFrame:
        """Describe requests by what was known at a moment; reads only.

        Parameters
        ----------
        requests : DataFrame of shape (n, >= 8)
            ``features.requests.REQUEST_COLUMNS``.
        as_of : float64 array of shape (n,), optional
            The moment of each row (s since 1970, UTC): only jobs that finished before it are
            seen. Without it, all observed jobs are, and ages are told from the newest of them.

        Returns
        -------
        DataFrame of shape (n, n_features), indexed as `requests`, float64
            ``USER_FEATURES``, which begin with ``CLUSTER_FEATURES``; NaN where unknown.
        """
        if as_of is None:
            newest = self._finish_time.max(initial=-np.inf) + 1.0
            as_of = np.maximum(requests["submit_time"].to_numpy(np.float64), newest)
        starts = range(0, len(requests), CHUNK) or range(1)
        parts = [
            self._transformed(requests.iloc[start : start + CHUNK], as_of[start : start + CHUNK])
            for start in starts
        ]
        return pd.concat(parts)

    def _transformed(self, requests: pd.DataFrame, as_of: Floats) -> pd.DataFrame:
        columns = {name: series.to_numpy() for name, series in request_features(requests).items()}
        waited_s = as_of - requests["submit_time"].to_numpy(np.float64)
        columns[WAITED] = np.log1p(np.maximum(waited_s, 0))
        for name, keys in _keys(requests).items():
            window = self._window(name, keys, as_of)
            statistics = window_statistics(window, columns["limit_log"])
            columns.update({f"{name}_{kind}": values for kind, values in statistics.items()})
        columns[ANCHOR] = anchor_log(columns)
        return pd.DataFrame(columns, index=requests.index)[list(USER_FEATURES)]

    def _window(self, level: str, keys: Digests, as_of: Floats) -> Window:
        positions, counts = self._levels[level].window(keys, as_of, WINDOW)
        if not len(self):
            empty = np.full(positions.shape, np.nan)
            return Window(empty, empty, counts.astype(np.float64), empty[:, 0])
        seen = positions >= 0
        runtime_log = np.where(seen, self._runtime_log[positions], np.nan)
        newest = np.where(seen[:, 0], self._finish_time[positions[:, 0]], np.nan)
        ratio_log = runtime_log - self._limit_log[positions]
        return Window(runtime_log, ratio_log, counts.astype(np.float64), as_of - newest)


def _keys(frame: pd.DataFrame) -> dict[str, Digests]:
    minute = np.floor(frame["submit_time"].astype("float64") / MINUTE_S)
    frame = frame.assign(submit_minute=minute)
    return {name: row_digests([frame[c] for c in columns]) for name, columns in LEVELS.items()}
