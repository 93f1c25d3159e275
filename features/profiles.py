"""Profiles: what the device counters of a job say when it runs alone."""

import pandas as pd

from data.domain import PROFILE_COLUMNS, RATIO_SIGNALS, Outcome
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
        Only runs that ended well count, and of them what was measured alone: proven exclusive
        runs, and the signals (never the JCT) of runs with ``exclusive_s``. A shared card's
        telemetry belongs to no single job. A signal that no run measured is missing, never
        zero.

    Examples
    --------
    >>> runs = pd.DataFrame({"job_key": ["a", "a", "a"], "gpu_model": "v100", "family": "f",
    ...     "neighbour_key": [None, None, "b"], "is_exclusive": [True, True, False],
    ...     "outcome": "ok", "jct_s": [2.0, 4.0, 9.0], "gpu_util_mean": [0.5, 0.7, 1.0]})
    >>> profiles(runs)[["job_key", "gpu_util_mean", "exclusive_jct_s", "runs"]].to_dict("records")
    [{'job_key': 'a', 'gpu_util_mean': 0.6, 'exclusive_jct_s': 3.0, 'runs': 2.0}]
    """
    whole = proven_exclusive(runs)
    counted = runs[whole | measured_alone(runs)]
    alone = counted.reset_index(drop=True).reindex(
        columns=[*counted.columns, *({"jct_s", "finish_time"} - set(counted.columns))]
    )
    alone["jct_s"] = alone["jct_s"].where(proven_exclusive(alone))
    table = profiles_by(alone, KEYS)
    return checked(table, PROFILES, "profiling runs")


def profiles_by(measured: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    """Return medians, count, spread and age of measurements, by `keys`.

    Parameters
    ----------
    measured : DataFrame
        `keys`, ``family``, and any of ``PROFILE_COLUMNS``, ``jct_s`` and ``finish_time``.
    keys : list of str

    Returns
    -------
    DataFrame, ordered by `keys`
        The columns of ``data.schemas.PROFILES`` that could be measured, and `keys`.
    """
    names = [name for name in (*PROFILE_COLUMNS, "jct_s") if name in measured.columns]
    groups = measured.groupby(keys, sort=True)
    table = groups[names].median().rename(columns={"jct_s": "exclusive_jct_s"})
    table["family"] = groups["family"].first()
    table["runs"] = groups.size()
    several = table["runs"] > 1
    if "jct_s" in names:
        jct = groups["jct_s"]
        spread = (jct.max() - jct.min()) / table["exclusive_jct_s"]
        table["jct_spread"] = spread.where(jct.count() > 1)
    ratios = [f"{name}_mean" for name in RATIO_SIGNALS if f"{name}_mean" in names]
    if ratios:
        spreads = groups[ratios].max() - groups[ratios].min()
        table["signal_spread"] = spreads.max(axis="columns").where(several)
    if "finish_time" in measured.columns:
        table["newest_time"] = groups["finish_time"].max()
    return table.reset_index()


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


def measured_alone(runs: pd.DataFrame) -> pd.Series:
    """Return which runs with neighbours have signals of the time when they were alone.

    Parameters
    ----------
    runs : DataFrame, ``data.schemas.PROFILING_RUNS``

    Returns
    -------
    Series of bool, indexed as `runs`
    """
    seconds = runs.reindex(columns=["exclusive_s"])["exclusive_s"]
    return seconds.notna() & (runs["outcome"] == Outcome.OK)
