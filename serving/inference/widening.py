"""How much wider the intervals of single users are: of those whose jobs kept missing them."""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from features.history import USER_CODE
from serving.inference.bundle import Floats

WIDENING_TABLE = "user_widening"
"""Beside the user model: ``user_code`` and ``factor`` (> 1) of each user that needs one."""

WIDENING_COLUMNS = (USER_CODE, "factor")


def user_widening(tables: Mapping[str, pd.DataFrame], rows: pd.DataFrame) -> Floats:
    """Return the factor on the interval of each row's user, 1 where none is known.

    Parameters
    ----------
    tables : mapping of str to DataFrame
        Of the user model; without the table all factors are 1.
    rows : DataFrame of shape (n, n_features)
        ``user_code`` as ``features.history.RuntimeHistory.transform`` gives it.

    Returns
    -------
    float64 array of shape (n,), >= 1

    Examples
    --------
    >>> tables = {WIDENING_TABLE: pd.DataFrame({"user_code": [7.0], "factor": [1.5]})}
    >>> user_widening(tables, pd.DataFrame({"user_code": [3.0, 7.0]})).tolist()
    [1.0, 1.5]
    """
    if WIDENING_TABLE not in tables:
        return np.ones(len(rows))
    factors = tables[WIDENING_TABLE].set_index(USER_CODE)["factor"]
    found = factors.reindex(rows[USER_CODE].to_numpy(np.float64))
    return np.asarray(found.fillna(1.0).to_numpy(np.float64))
