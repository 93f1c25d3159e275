"""Groups of jobs by how many of its user's jobs had finished before."""

import numpy as np
import pandas as pd

HISTORY_GROUPS = ("0", "1", "2-5", "6-20", "21-100", ">100")
_LARGEST = (0.5, 1.5, 5.5, 20.5, 100.5)


def history_groups(rows: pd.DataFrame) -> "pd.Series[str]":
    """Return each row's group, one of ``HISTORY_GROUPS``.

    Parameters
    ----------
    rows : DataFrame of shape (n, >= 1)
        ``user_jobs``: log(1 + number of the user's finished jobs).

    Examples
    --------
    >>> history_groups(pd.DataFrame({"user_jobs": np.log1p([0.0, 1, 5, 6, 101])})).tolist()
    ['0', '1', '2-5', '6-20', '>100']
    """
    places = np.searchsorted(_LARGEST, np.expm1(rows["user_jobs"].to_numpy(np.float64)))
    return pd.Series(np.array(HISTORY_GROUPS, dtype=object)[places], index=rows.index, dtype="str")
