"""Groups of jobs by how much alike jobs have shown already: where intervals are narrow or wide.

A job that has waited is of another group than one that was just submitted: meanwhile some of its
batch may have started, and of what was shown, most is told by these.
"""

import numpy as np
import pandas as pd

from features.history import EVIDENCE, WAITED

EVIDENCE_BOUNDS = (0.001, 0.02, 0.05, 0.2, 0.5, 0.7, 0.8)
_EVIDENCE = ("none", *(f"{bound:g}" for bound in EVIDENCE_BOUNDS))
HAS_WAITED = " waited"
EVIDENCE_GROUPS = (*_EVIDENCE, *(name + HAS_WAITED for name in _EVIDENCE))


def evidence_groups(rows: pd.DataFrame) -> "pd.Series[str]":
    """Return each row's group: ``none``, or the bound that its evidence reaches; and if it waited.

    Parameters
    ----------
    rows : DataFrame of shape (n, >= 2)
        ``evidence`` in [0, 1] and ``waited_log`` (>= 0), from ``features.history``.

    Examples
    --------
    >>> rows = pd.DataFrame({"evidence": [0.0, 0.3, 0.8], "waited_log": [0.0, 0.0, 2.0]})
    >>> evidence_groups(rows).tolist()
    ['none', '0.2', '0.8 waited']
    """
    places = np.searchsorted(EVIDENCE_BOUNDS, rows[EVIDENCE].to_numpy(np.float64), side="right")
    has_waited = rows[WAITED].gt(0).to_numpy()
    groups = np.array(EVIDENCE_GROUPS, dtype=object)[places + len(_EVIDENCE) * has_waited]
    return pd.Series(groups, index=rows.index, dtype="str")
