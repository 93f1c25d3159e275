"""What finished jobs tell about the next one: the memory behind runtime prediction."""

from collections.abc import Iterator, Mapping

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from features.anchor import nested_pull, prior_log
from features.digests import Digests, column_digests, joined_digests, row_digests
from features.finished_index import FinishedIndex
from features.history_levels import CLUSTER_LEVELS, LEVELS, USER_LEVELS, Level
from features.kriging import Kriged, kriged
from features.requests import REQUEST_FEATURES, limit_log, request_features
from features.started_jobs import (
    STARTED_STATISTICS,
    STARTED_WINDOW,
    RunningNow,
    Started,
    started_statistics,
)
from features.window_statistics import FLOOR_S, STATISTICS, Window, window_statistics

Floats = NDArray[np.float64]
Columns = dict[str, Floats]

ANCHOR = "anchor_log"
"""Log seconds that the limit and alike jobs of anyone expect: where the cluster trees start."""

USER_OFFSET = "user_offset"
"""What the user's own jobs add to the anchor: where the user trees start."""

EVIDENCE = "evidence"
"""Largest share, in [0, 1], of what alike jobs have in common that finished ones have shown."""

USER_CODE = "user_code"
"""Equal for the jobs of one user, a whole number below 2^53; no input of any tree."""

WAITED = "waited_log"
_LEVEL_FEATURES = (*STATISTICS, "pull", "weight", "explained", "noise")
CLUSTER_FEATURES = (
    *REQUEST_FEATURES,
    WAITED,
    *(f"{level.name}_{name}" for level in CLUSTER_LEVELS for name in _LEVEL_FEATURES),
)
"""Input of ``colocast-runtime-cluster``: nothing in it tells who asks."""

USER_FEATURES = (
    *CLUSTER_FEATURES,
    *(f"{level.name}_{name}" for level in USER_LEVELS for name in _LEVEL_FEATURES),
    *(f"{level.name}_{name}" for level in USER_LEVELS for name in STARTED_STATISTICS),
)
"""Input of ``colocast-runtime-user``."""

ROW_COLUMNS = (*USER_FEATURES, ANCHOR, USER_OFFSET, EVIDENCE, USER_CODE)
WINDOW = 16  # 8 lose 0.025 of log R² at the start, 32 gain 0.003 (DRAC, first weeks)
CHUNK = 32_768  # rows a pass: 4 MiB a matrix, whatever is asked
KEY_COLUMNS = ("user", "queue", "job_key", "gpus", "cpus", "mem_mib", "limit_s")
_STORED = ("submit_time", "start_time", "finish_time", "runtime_log", "limit_log")


class RuntimeHistory:
    """Finished jobs, kept so that what was known at any moment can be read at once.

    ``transform`` never changes it, and the same jobs give the same features in whichever order
    and chunks they were observed.

    Examples
    --------
    >>> history = RuntimeHistory()
    >>> job = pd.DataFrame({"job_id": ["1"], "attempt": [0.0], "user": ["ada"], "queue": ["q"],
    ...     "job_key": ["resnet"], "gpus": [1.0], "cpus": [4.0], "mem_mib": [64.0],
    ...     "limit_s": [600.0], "submit_time": [0.0], "start_time": [10.0],
    ...     "finish_time": [70.0], "runtime_s": [60.0]})
    >>> history.observe(job)
    >>> same = job.assign(submit_time=100.0)
    >>> float(np.exp(history.transform(same).loc[0, "anchor_log"]).round())
    61.0
    >>> history.transform(same, np.array([69.0]))["user_jobs"].tolist()
    [0.0]
    """

    def __init__(self) -> None:
        self._indices = {level.name: FinishedIndex() for level in LEVELS}
        self._starts = {level.name: FinishedIndex() for level in USER_LEVELS}
        self._stored: Columns = {name: np.empty(0) for name in _STORED}

    def __len__(self) -> int:
        return len(self._stored["finish_time"])

    def observe(self, jobs: pd.DataFrame) -> None:
        """Remember jobs that have finished.

        Parameters
        ----------
        jobs : DataFrame of shape (n, >= 12), any order
            Columns of ``data.schemas.JOBS``. Each attempt of a job is to be observed once: the
            job log is idempotent.
        """
        positions = np.arange(len(self), len(self) + len(jobs))
        identities = row_digests([jobs["job_id"], jobs["attempt"].astype("float64")])
        times = {
            name: jobs[name].to_numpy(np.float64)
            for name in ("submit_time", "start_time", "finish_time")
        }
        for level, keys in _keyed(jobs):
            self._indices[level.name].add(keys, times["finish_time"], identities, positions)
            if level.name in self._starts:
                self._starts[level.name].add(keys, times["start_time"], identities, positions)
        more = times | {
            "runtime_log": runtime_log(jobs),
            "limit_log": limit_log(jobs["limit_s"]).to_numpy(np.float64),
        }
        self._stored = {name: np.append(self._stored[name], more[name]) for name in _STORED}

    def transform(
        self,
        requests: pd.DataFrame,
        as_of: Floats | None = None,
        running: pd.DataFrame | None = None,
    ) -> pd.DataFrame:
        """Describe requests by what was known at a moment; reads only.

        Parameters
        ----------
        requests : DataFrame of shape (n, >= 9)
            ``features.requests.REQUEST_COLUMNS``.
        as_of : float64 array of shape (n,), optional
            The moment of each row (s since 1970, UTC): only jobs that finished before it are
            seen, and those that had started before it are seen to run. Without it, all observed
            jobs are, and ages are told from the newest of them.
        running : DataFrame of shape (m, 10), optional
            Jobs that run at the moment of the question and were not observed yet:
            ``features.requests.REQUEST_COLUMNS`` and ``elapsed_s``. No job counts for itself.

        Returns
        -------
        DataFrame of shape (n, n_columns), indexed as `requests`, float64
            ``ROW_COLUMNS``: the models' inputs, NaN where unknown, and ``anchor_log``,
            ``user_offset``, ``evidence`` and ``user_code``, never NaN. ``<level>_mean``, ``_low``,
            ``_high`` and ``_last`` are told from the anchor.
        """
        if as_of is None:
            newest = self._stored["finish_time"].max(initial=-np.inf) + 1.0
            as_of = np.maximum(requests["submit_time"].to_numpy(np.float64), newest)
        starts = range(0, len(requests), CHUNK) or range(1)
        parts = [
            self._transformed(
                requests.iloc[start : start + CHUNK], as_of[start : start + CHUNK], running
            )
            for start in starts
        ]
        return pd.concat(parts)

    def _transformed(
        self, requests: pd.DataFrame, as_of: Floats, running: pd.DataFrame | None
    ) -> pd.DataFrame:
        described = request_features(requests)
        columns = {name: described[name].to_numpy(np.float64) for name in REQUEST_FEATURES}
        submit_time = requests["submit_time"].to_numpy(np.float64)
        columns[WAITED] = np.log1p(np.maximum(as_of - submit_time, 0))
        prior = prior_log(columns["limit_log"])
        told = {}
        windows = {}
        for level, keys in _keyed(requests):
            windows[level.name], told[level.name] = self._read(level, keys, as_of, submit_time)
        cluster = _cluster_pull(told, np.isnan(columns["limit_log"]))
        columns[ANCHOR] = prior + cluster
        columns[USER_OFFSET] = _user_pull(told, cluster) - cluster
        columns[USER_CODE] = user_codes(requests["user"])
        columns[EVIDENCE] = np.max([level.explained for level in told.values()], axis=0)
        for name, window in windows.items():
            columns |= _level_columns(name, window, told[name], columns[ANCHOR], cluster)
        guess = columns[ANCHOR] + columns[USER_OFFSET]
        for name, started in self._started(requests, as_of, running).items():
            values_of = started_statistics(started, submit_time, guess)
            columns |= {f"{name}_{kind}": column for kind, column in values_of.items()}
        values = np.column_stack([columns[name] for name in ROW_COLUMNS])
        return pd.DataFrame(values, index=requests.index, columns=list(ROW_COLUMNS))

    def _read(
        self, level: Level, keys: Digests, as_of: Floats, submit_time: Floats
    ) -> tuple[Window, Kriged]:
        positions, counts = self._indices[level.name].window(keys, as_of, WINDOW)
        stored = {name: _taken(self._stored[name], positions) for name in _STORED}
        window = Window(
            runtime_log=stored["runtime_log"],
            ratio_log=stored["runtime_log"] - stored["limit_log"],
            counts=counts.astype(np.float64),
            age_s=as_of - stored["finish_time"][:, 0],
        )
        residuals = stored["runtime_log"] - prior_log(stored["limit_log"])
        return window, kriged(residuals, stored["submit_time"], submit_time, level.kernel)

    def _started(
        self, requests: pd.DataFrame, as_of: Floats, running: pd.DataFrame | None
    ) -> dict[str, Started]:
        found = {}
        now = {} if running is None else {level.name: keys for level, keys in _keyed(running)}
        for level, keys in _keyed(requests):
            if level.name not in self._starts:
                continue
            started = self._started_before(level, keys, as_of)
            if running is not None and len(running):
                names = column_digests(requests["job_id"])
                others = RunningNow(now[level.name], running).started(keys, names)
                started = started.with_others(others)
            found[level.name] = started
        return found

    def _started_before(self, level: Level, keys: Digests, as_of: Floats) -> Started:
        positions, _ = self._starts[level.name].window(keys, as_of, STARTED_WINDOW)
        names = ("submit_time", "start_time", "finish_time", "runtime_log")
        submit_time, start_time, finish_time, lasted = (
            _taken(self._stored[name], positions) for name in names
        )
        ago_s = as_of[:, None] - start_time
        is_running = finish_time >= as_of[:, None]
        return Started(ago_s, np.where(is_running, ago_s, np.exp(lasted)), is_running, submit_time)


def runtime_log(jobs: pd.DataFrame) -> Floats:
    """Return the natural logarithm of each job's ``runtime_s``, which counts as 0.1 s at least."""
    return np.asarray(np.log(np.maximum(jobs["runtime_s"].to_numpy(np.float64), FLOOR_S)))


def user_codes(users: "pd.Series[str]") -> Floats:
    """Return a number for each user that a float64 holds exactly.

    Examples
    --------
    >>> ada, bob, again = user_codes(pd.Series(["ada", "bob", "ada"]))
    >>> bool(ada == again), bool(ada == bob), bool(ada < 2**53)
    (True, False, True)
    """
    return (column_digests(users) >> np.uint64(11)).astype(np.float64)


def _keyed(frame: pd.DataFrame) -> Iterator[tuple[Level, Digests]]:
    digests = {name: column_digests(frame[name]) for name in KEY_COLUMNS}
    digests["kind"] = column_digests(frame["job_key"].fillna(""))
    for level in LEVELS:
        yield level, joined_digests([digests[name] for name in level.columns])


def _taken(values: Floats, positions: NDArray[np.int64]) -> Floats:
    if not len(values):
        return np.full(positions.shape, np.nan)
    return np.where(positions >= 0, values[positions], np.nan)


def _cluster_pull(told: Mapping[str, Kriged], is_unlimited: NDArray[np.bool_]) -> Floats:
    # A limit says more than the queue does: with it, the queue made the anchor worse on DRAC.
    queue = told["queue"].where(is_unlimited)
    return nested_pull([told["key"], told["request"], queue])


def _user_pull(told: Mapping[str, Kriged], cluster: Floats) -> Floats:
    # The user's other requests made it worse, too; the trees see them all the same.
    return nested_pull([told["user_request"], Kriged.certain(cluster)])


def _level_columns(
    name: str, window: Window, told: Kriged, anchor: Floats, cluster: Floats
) -> Columns:
    values = window_statistics(window, anchor)
    values |= {
        "pull": told.pull - cluster,
        "weight": told.weight,
        "explained": told.explained,
        "noise": told.noise,
    }
    return {f"{name}_{kind}": column for kind, column in values.items()}
