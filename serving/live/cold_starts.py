"""What measured pairs say of jobs that have no profile on their GPU model yet."""

import numpy as np
import pandas as pd

from serving.inference.bundle import Floats

FEWEST_PAIRS = 3
STEP = ["side", "key", "gpu_model"]


def with_measured_pairs(
    table: pd.DataFrame, pairs: pd.DataFrame, log_slowdown: Floats
) -> pd.DataFrame:
    """Return the table of cold starts after more pairs were measured.

    Parameters
    ----------
    table : DataFrame
        As training made it: ``side``, ``key``, ``gpu_model``, ``value``, ``lower``, ``upper`` and
        ``rows``.
    pairs : DataFrame of shape (n, 3)
        All that were measured, learnt from or not: ``job_key``, ``neighbour_key``, ``gpu_model``.
    log_slowdown : float64 array of shape (n,)

    Returns
    -------
    DataFrame
        With a median for every GPU model, and every job on it, of which three pairs or more are
        known. Intervals hold all of these and, for they are few, what held before: that of the
        step if there was one, else that of everything.

    Examples
    --------
    >>> table = pd.DataFrame([("any", "", "", 1.1, 1.0, 1.4, 40)], columns=[*STEP, "value",
    ...     "lower", "upper", "rows"])
    >>> pairs = pd.DataFrame({"job_key": ["a", "b", "c"], "neighbour_key": "d",
    ...     "gpu_model": "v100"})
    >>> found = with_measured_pairs(table, pairs, np.log([1.2, 1.5, 2.0]))
    >>> found[["side", "key", "gpu_model", "value", "upper"]].round(3).values.tolist()
    ... # doctest: +NORMALIZE_WHITESPACE
    [['neighbour', 'd', 'v100', 1.5, 2.0], ['any', '', 'v100', 1.5, 2.0], ['any', '', '', 1.1, 1.4]]
    """
    slowdowns = pairs.assign(slowdown=np.exp(log_slowdown), any="")
    sides = {"neighbour": "neighbour_key", "job": "job_key", "any": "any"}
    parts = [_medians(slowdowns, side, column) for side, column in sides.items()]
    fresh = pd.concat(parts, ignore_index=True)
    everything = table[(table["side"] == "any") & (table["gpu_model"] == "")].iloc[-1]
    before = table.set_index(STEP).reindex(pd.MultiIndex.from_frame(fresh[STEP]))
    for end, furthest in (("lower", np.minimum), ("upper", np.maximum)):
        held = before[end].fillna(everything[end]).to_numpy(np.float64)
        fresh[end] = furthest(fresh[end].to_numpy(np.float64), held)
    is_known = pd.MultiIndex.from_frame(table[STEP]).isin(pd.MultiIndex.from_frame(fresh[STEP]))
    return pd.concat([fresh, table[~is_known]], ignore_index=True)[list(table.columns)]


def _medians(slowdowns: pd.DataFrame, side: str, column: str) -> pd.DataFrame:
    groups = slowdowns.groupby([column, "gpu_model"])["slowdown"]
    found = groups.agg(value="median", lower="min", upper="max", rows="size").reset_index()
    found = found[found["rows"] >= FEWEST_PAIRS].rename(columns={column: "key"})
    return found.assign(side=side)
