"""Profiles: what the device counters of a job say when it runs alone."""

import pandas as pd

from data.domain import PROFILE_COLUMNS, Outcome
from data.schemas import PROFILES, checked

KEYS = ["job_key", "gpu_model"]


def profiles(runs: pd.DataFrame) -> pd.DataFrame:
    """Return the profile of each job key on each GPU model: medians over its exclusive runs.

    Parameters
    ----------
    runs : DataFrame, ``data.schemas.PROFILING_RUNS``

    Returns
    -------
    DataFrame, ``data.schemas.PROFILES``, ordered by job key and GPU model
        Only runs that were proven exclusive and ended well count: a shared card's telemetry
        belongs to no single job. A signal that no run measured is missing, never zero.

    Examples
    --------
    >>> runs = pd.DataFrame({"job_key": ["a", "a", "a"], "gpu_model": "v100", "family": "f",
    ...     "neighbour_key": [None, None, "b"], "is_exclusive": [True, True, False],
    ...     "outcome": "ok", "jct_s": [2.0, 4.0, 9.0], "gpu_util_mean": [0.5, 0.7, 1.0]})
    >>> profiles(runs)[["job_key", "gpu_util_mean", "exclusive_jct_s", "runs"]].to_dict("records")
    [{'job_key': 'a', 'gpu_util_mean': 0.6, 'exclusive_jct_s': 3.0, 'runs': 2.0}]
    """
    alone = runs[proven_exclusive(runs)].reset_index(drop=True)
    measured = [name for name in (*PROFILE_COLUMNS, "jct_s") if name in alone.columns]
    groups = alone.groupby(KEYS, sort=True)
    table = groups[measured].median().rename(columns={"jct_s": "exclusive_jct_s"})
    table["family"] = groups["family"].first()
    table["runs"] = groups.size()
    return checked(table.reset_index(), PROFILES, "profiling runs")


def proven_exclusive(runs: pd.DataFrame) -> pd.Series:
    """Return which runs were alone by the allocation record, and ended well.

    Parameters
    ----------
    runs : DataFrame, ``data.schemas.PROFILING_RUNS``

    Returns
    -------
    Series of bool, indexed as `runs`
    """
    alone = runs["neighbour_key"].isna() & runs["is_exclusive"].astype("bool")
    return alone & (runs["outcome"] == Outcome.OK)
