"""Groups of jobs by how much alike jobs have shown already: where intervals are narrow or wide."""

import numpy as np
import pandas as pd

from features.history import EVIDENCE

EVIDENCE_BOUNDS = (0.001, 0.02, 0.05, 0.2, 0.5, 0.7, 0.8)
EVIDENCE_GROUPS = ("none", *(f"{bound:g}" for bound in EVIDENCE_BOUNDS))


def evidence_groups(rows: pd.DataFrame) -> "pd.Series[str]":
    """Return each row's group: ``none``, or the bound that its evidence reaches.

    Parameters
    ----------
    rows : DataFrame of shape (n, >= 1)
        ``evidence`` in [0, 1], from ``features.history``.

    Examples
    --------
    >>> evidence_groups(pd.DataFrame({"evidence": [0.0, 0.3, 0.8]})).tolist()
    ['none', '0.2', '0.8']
    """
    places = np.searchsorted(EVIDENCE_BOUNDS, rows[EVIDENCE].to_numpy(np.float64), side="right")
    groups = np.array(EVIDENCE_GROUPS, dtype=object)[places]
    return pd.Series(groups, index=rows.index, dtype="str")
