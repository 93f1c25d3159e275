"""Learn whose intervals must be wider: users whose newest jobs missed them more than others."""

import numpy as np
import pandas as pd

from pipelines.conformal import WIDEST_OUTSIDE
from pipelines.runtime.calibration import HeldOut, needed
from serving.inference.widening import WIDENING_COLUMNS

ASKED = 2  # each job counts twice, by halves: asked about at its start and at its submission
STEP = 0.3
"""Of the logarithm of the factor at a miss; on DRAC's jobs before 24 May 2021 0.15 to 1 hold about
as much (0.92 of the rows, 0.77 to 0.80 in the worst tenth of users)."""


def widening_table(table: pd.DataFrame, held: HeldOut, level: float) -> pd.DataFrame:
    """Return the factor on the intervals of each user who needs one.

    Parameters
    ----------
    table : DataFrame
        ``serving.inference.residuals.residual_table``, of which intervals are made.
    held : HeldOut
        In the order in which the jobs finished.
    level : float
        Nominal coverage, in (0, 1).

    Returns
    -------
    DataFrame of shape (n_users, 2)
        ``user_code`` and ``factor``, in (1, 4].

    Notes
    -----
    Gibbs and Candès, "Adaptive Conformal Inference Under Distribution Shift", NeurIPS 2021, by
    user: a job that its interval missed widens the user's next ones, one that it held lets them
    shrink again, in the proportion of `level`. The jobs of one batch end alike: its k-th one moves
    the width by 1 / sqrt(k) of a step. Nobody's intervals become narrower than those of all users,
    so who has no history gets just these.
    """
    jobs = len(held.residuals) // ASKED
    order = np.lexsort((np.tile(np.arange(jobs), ASKED), held.user))
    share, user, batch = needed(table, held, level)[order], held.user[order], held.batch[order]
    before = pd.Series(batch).groupby(batch).cumcount().to_numpy() // ASKED
    step = STEP / np.sqrt(before + 1) / ASKED
    starts = np.flatnonzero(np.diff(user, prepend=np.nan) != 0)
    rows = [
        (user[first], _factor(share[first:end], step[first:end], 1 - level))
        for first, end in zip(starts, [*starts[1:], len(user)], strict=True)
    ]
    found = pd.DataFrame(rows, columns=list(WIDENING_COLUMNS), dtype="float64")
    return found[found["factor"] > 1].reset_index(drop=True)


def _factor(share: np.ndarray, step: np.ndarray, missed: float) -> float:
    """Return the factor after a user's jobs, each of which needed so many times its interval.

    Examples
    --------
    >>> always = np.full(50, 9.0)
    >>> _factor(always, np.full(50, 0.3), 0.1), _factor(always / 10, np.full(50, 0.3), 0.1)
    (4.0, 1.0)
    """
    log_factor, most = 0.0, float(np.log(WIDEST_OUTSIDE))
    log_share = np.log(np.maximum(share, 1e-9))
    for one, size in zip(log_share.tolist(), step.tolist(), strict=True):
        moved = log_factor + size * ((one > log_factor) - missed)
        log_factor = min(max(moved, 0.0), most)
    return float(np.exp(log_factor))
