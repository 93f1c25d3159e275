"""What a job asks for, as columns: known at submission, and free of who asks."""

from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd

from data.domain import JobRequest

REQUEST_COLUMNS = (
    "job_id",
    "user",
    "queue",
    "job_key",
    "submit_time",
    "gpus",
    "cpus",
    "mem_mib",
    "limit_s",
)
"""The columns of ``JOBS`` that are known at submission; a requests frame holds these."""

TEXTS = ("job_id", "user", "queue", "job_key")

REQUEST_FEATURES = (
    "gpus",
    "cpus_log",
    "mem_log",
    "mem_per_cpu_log",
    "limit_log",
    "submit_hour",
    "submit_weekday",
)

DAY_S = 86_400.0
FIRST_WEEKDAY = 3  # 1970-01-01 was a Thursday; Monday is 0


def requests_frame(requests: Iterable[JobRequest]) -> pd.DataFrame:
    """Return one row a request, as history and features read them.

    Parameters
    ----------
    requests : iterable of JobRequest

    Returns
    -------
    DataFrame of shape (n, 9), RangeIndex
        ``REQUEST_COLUMNS``: text, moments in seconds since 1970 (UTC), counts, MiB, seconds;
        NaN where the request does not say.

    Examples
    --------
    >>> frame = requests_frame([JobRequest("1", "ada", "vision", "resnet", 0.0, limit_s=60.0)])
    >>> frame[["user", "gpus", "limit_s"]].to_dict("records")
    [{'user': 'ada', 'gpus': 1.0, 'limit_s': 60.0}]
    """
    return _frame(requests, REQUEST_COLUMNS)


def running_frame(running: Iterable[JobRequest]) -> pd.DataFrame:
    """Return one row a running job, as history reads them beside finished ones.

    Parameters
    ----------
    running : iterable of JobRequest
        ``elapsed_s`` says how long each has been running.

    Returns
    -------
    DataFrame of shape (n, 10), RangeIndex
        ``REQUEST_COLUMNS`` and ``elapsed_s`` (s).
    """
    return _frame(running, (*REQUEST_COLUMNS, "elapsed_s"))


def _frame(requests: Iterable[JobRequest], names: Sequence[str]) -> pd.DataFrame:
    rows = [tuple(getattr(request, name) for name in names) for request in requests]
    texts = dict.fromkeys(TEXTS, "str")
    numbers = dict.fromkeys([name for name in names if name not in TEXTS], "float64")
    return pd.DataFrame(rows, columns=list(names)).astype({**texts, **numbers})


def request_features(requests: pd.DataFrame) -> pd.DataFrame:
    """Describe each request by its size, its limit and when it was submitted.

    Parameters
    ----------
    requests : DataFrame of shape (n, >= 5)
        ``gpus``, ``cpus``, ``mem_mib``, ``limit_s`` (NaN: not said), ``submit_time``.

    Returns
    -------
    DataFrame of shape (n, 7), indexed as `requests`, float64
        ``REQUEST_FEATURES``: ``*_log`` are natural logarithms of 1 + count, MiB or seconds,
        ``submit_hour`` in [0, 24) and ``submit_weekday`` in [0, 6] (Monday is 0), both UTC.
    """
    cpus, mem_mib = requests["cpus"], requests["mem_mib"]
    days = requests["submit_time"] / DAY_S
    columns = {
        "gpus": requests["gpus"],
        "cpus_log": np.log1p(cpus),
        "mem_log": np.log1p(mem_mib),
        "mem_per_cpu_log": np.log1p(mem_mib / cpus.where(cpus > 0)),
        "limit_log": limit_log(requests["limit_s"]),
        "submit_hour": days % 1 * 24,
        "submit_weekday": (np.floor(days) + FIRST_WEEKDAY) % 7,
    }
    return pd.DataFrame(columns, index=requests.index).astype("float64")


def limit_log(limit_s: "pd.Series[float]") -> "pd.Series[float]":
    """Return the natural logarithm of each limit (s); NaN where there is none or it is 0."""
    values = limit_s.to_numpy(np.float64)
    return pd.Series(np.log(np.where(values > 0, values, np.nan)), index=limit_s.index)
