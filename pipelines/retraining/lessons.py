"""What a lesson is: rows that finished jobs became, and how models are made and judged by them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pipelines.registering.report import TrainingReport
from pipelines.retraining.finished_jobs import Sequences
from serving.inference.bundle import Bundle, Floats

Trained = tuple[Bundle, TrainingReport]


@dataclass(frozen=True, slots=True)
class Answers:
    """How models answered the rows they were asked, in order.

    Attributes
    ----------
    errors : float64 array of shape (n,)
        Finite and not negative; of the logarithm, so that long jobs do not drown short ones.
    covered : float64 array of shape (n,), in [0, 1]
        Whether, or with what share of several signals, the interval held what was observed.
    losses : float64 array, one a decision
        Of scheduling these rows by the answers, see ``regret``; empty where it makes no sense.
    """

    errors: Floats
    covered: Floats
    losses: Floats = field(default_factory=lambda: np.empty(0))


class Lesson(Protocol):
    """What finished jobs teach to models that belong together, and how these are judged."""

    @property
    def models(self) -> tuple[str, ...]:
        """Registered names; they are promoted together or not at all."""
        ...

    @property
    def sequences(self) -> Sequences:
        """Job log entries of the usable rows, ascending, shape (n,)."""
        ...

    @property
    def groups(self) -> NDArray[np.generic]:
        """What the rows repeat, see ``gate.Evidence``, shape (n,)."""
        ...

    def trained(self, until: int) -> Sequence[Trained]:
        """Return each model and its report, from the initial tables and entries up to `until`."""
        ...

    def trial(self, until: int, /) -> Sequence[Bundle]:
        """Return the models that `trained` makes, with equal values but without intervals.

        Nothing where that takes as long.
        """
        ...

    def answers(self, bundles: Sequence[Bundle], after: int) -> Answers:
        """Return how `bundles`, in the order of `models`, answer the rows after `after`."""
        ...


def ends(estimates: pd.DataFrame) -> tuple[Floats, Floats, Floats]:
    """Return ``value``, ``lower`` and ``upper`` of a frame of estimates as arrays."""
    value, lower, upper = (
        estimates[name].to_numpy(np.float64) for name in ("value", "lower", "upper")
    )
    return value, lower, upper
