"""Entries of one job log, as what retrains is given them, and their newest slice."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from data.domain import FinishedJob

Sequences = NDArray[np.int64]
JUDGING_SHARE = 0.5  # of the rows the champion has not learnt from; the others are learnt from


@dataclass(frozen=True, slots=True)
class FinishedJobs:
    """The newest entries of one job log.

    Attributes
    ----------
    joblog : str
        Which log it is; sequence numbers of another one mean nothing.
    sequences : sequence of int
        Ascending.
    jobs : sequence of FinishedJob
        In the same order.
    """

    joblog: str
    sequences: Sequence[int]
    jobs: Sequence[FinishedJob]

    def until(self, sequence: int) -> "FinishedJobs":
        """Return the entries up to and including `sequence`."""
        length = int(np.searchsorted(self.sequences, sequence, side="right"))
        return FinishedJobs(self.joblog, self.sequences[:length], self.jobs[:length])


def learnt_until(sequences: Sequences, seen: int) -> int:
    """Return the sequence number that parts what a challenger learns from what judges it.

    Parameters
    ----------
    sequences : array of shape (n,), int64
        Of the usable rows, ascending.
    seen : int
        The champion learnt from rows up to this number.

    Returns
    -------
    int
        The newest half of the rows beyond `seen` lies beyond it too: neither model has learnt
        from those, and they are the newest there are.

    Examples
    --------
    >>> learnt_until(np.array([2, 3, 5, 8, 9, 12]), seen=3)
    8
    >>> learnt_until(np.array([2, 3]), seen=3)
    3
    """
    fresh = sequences[sequences > seen]
    learnt = fresh[: len(fresh) - int(len(fresh) * JUDGING_SHARE)]
    return int(learnt[-1]) if len(learnt) else seen
