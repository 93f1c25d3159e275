"""What sets a pair that was measured apart from all that are like it."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from features.pairs import profile_positions
from serving.inference.bundle import Bundle, Floats

OWN_TABLE = "own_effects"
"""A row a measured pair: its keys, ``own`` (log slowdown) and ``share`` (in [0, 1])."""


@dataclass(frozen=True, slots=True)
class OwnEffects:
    """What is added to the answers of measured pairs of m profiled jobs.

    Attributes
    ----------
    jobs : int
    pair : int64 array of shape (k,), ascending
        Position of the job times `jobs`, plus that of the neighbour.
    own : float64 array of shape (k,)
        Log slowdown of the pair beyond what effects say of all like it.
    share : float64 array of shape (k,), in [0, 1]
        Of what effects leave over, how much `own` knows: the forest need not guess at it.
    """

    jobs: int
    pair: NDArray[np.int64]
    own: Floats
    share: Floats

    @classmethod
    def of(cls, bundle: Bundle) -> "OwnEffects":
        """Return those of the bundle's measured pairs; none where it was not adapted."""
        profiles = bundle.tables["profiles"]
        if OWN_TABLE not in bundle.tables:
            nothing = np.zeros(0)
            return cls(len(profiles), nothing.astype(np.int64), nothing, nothing)
        table = bundle.tables[OWN_TABLE]
        at = profile_positions(profiles, table)
        known = (at >= 0).all(axis=1)
        pair = (at[:, 0] * len(profiles) + at[:, 1])[known].astype(np.int64)
        order = np.argsort(pair)
        own, share = (table[name].to_numpy(np.float64)[known][order] for name in ("own", "share"))
        return cls(len(profiles), pair[order], own, share)

    def corrected(
        self, base: Floats, weight: Floats, at: NDArray[np.intp]
    ) -> tuple[Floats, Floats]:
        """Return what the forest's answers are added to, and their weight, of measured pairs too.

        Parameters
        ----------
        base, weight : float64 array of shape (n,)
            By effects and forest alone.
        at : intp array of shape (n, 2)
            Positions of job and neighbour among the profiles.

        Examples
        --------
        >>> known = OwnEffects(3, np.array([1]), np.array([0.2]), np.array([0.75]))
        >>> base, weight = known.corrected(np.zeros(2), np.ones(2), np.array([[0, 1], [1, 0]]))
        >>> base.tolist(), weight.tolist()
        ([0.2, 0.0], [0.25, 1.0])
        """
        if not len(self.pair):
            return base, weight
        asked = at[:, 0] * self.jobs + at[:, 1]
        found = np.minimum(np.searchsorted(self.pair, asked), len(self.pair) - 1)
        is_measured = self.pair[found] == asked
        own, share = (np.where(is_measured, each[found], 0.0) for each in (self.own, self.share))
        return base + own, weight * (1 - share)


def own_table(
    pairs: pd.DataFrame, own_variance: Floats, noise: Floats, pull: Floats
) -> pd.DataFrame:
    """Return the table of pairs that were just measured.

    Parameters
    ----------
    pairs : DataFrame of shape (k, >= 3)
        ``job_key``, ``neighbour_key`` and ``gpu_model``.
    own_variance : float64 array of shape (k,)
        Of the pair's own part, which no other pair shares.
    noise : float64 array of shape (k,)
        All that its effects do not explain: `own_variance`, and the noise of its measurement.
    pull : float64 array of shape (k,)
        As in ``features.effects.Effects``.

    Notes
    -----
    The posterior mean of a part whose covariance with its own measurement alone is not zero:
    Rasmussen and Williams, "Gaussian Processes for Machine Learning", MIT Press 2006, equation
    2.25. A measurement that lies beyond three standard deviations counts as one at three.
    """
    most = 3 * np.sqrt(noise)
    own = np.clip(own_variance * pull, -most, most)
    keys = pairs[["job_key", "neighbour_key", "gpu_model"]].reset_index(drop=True)
    return keys.assign(own=own, share=own_variance / np.maximum(noise, 1e-12))
