"""The groups of labelled pairs that are held out together, by the name of the split."""

from collections.abc import Callable

import numpy as np
import pandas as pd
from numpy.typing import NDArray


def pair_names(rows: pd.DataFrame, job: str, neighbour: str, *others: str) -> pd.Series:
    """Return one name for both directions of each row's pair.

    Parameters
    ----------
    rows : DataFrame
    job, neighbour : str
        The columns of both sides.
    *others : str
        Columns by which pairs of the same sides differ.

    Examples
    --------
    >>> rows = pd.DataFrame({"job": ["b", "a"], "neighbour": ["a", "b"], "gpu": ["v", "k"]})
    >>> pair_names(rows, "job", "neighbour", "gpu").str.split().tolist()
    [['a', 'b', 'v'], ['a', 'b', 'k']]
    """
    sides = np.sort(rows[[job, neighbour]].to_numpy(dtype=str), axis=1)
    parts = np.column_stack([sides, rows[list(others)].to_numpy(dtype=str)])
    return pd.Series(["\n".join(part) for part in parts], dtype="str")


def _column(groups: pd.Series) -> NDArray[np.str_]:
    return groups.to_numpy(dtype=str)[:, None]


SPLIT_GROUPS: dict[str, Callable[[pd.DataFrame], NDArray[np.str_]]] = {
    "pair": lambda rows: _column(pair_names(rows, "job_key", "neighbour_key", "gpu_model")),
    "family_pair": lambda rows: _column(pair_names(rows, "family", "neighbour_family")),
    "configuration": lambda rows: rows[["job_key", "neighbour_key"]].to_numpy(dtype=str),
    "family": lambda rows: rows[["family", "neighbour_family"]].to_numpy(dtype=str),
    "gpu_model": lambda rows: _column(rows["gpu_model"]),
}
"""From n rows to the groups that each is of, any of which may be held out: shape (n, 1 or 2)."""
