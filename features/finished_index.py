"""Which of the finished jobs with a given key were known at a given moment."""

import numpy as np
from numpy.typing import NDArray

from features.digests import NO_KEY, Digests

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

TICKS_PER_S = 4
TICK_BITS = 34  # 2**34 quarter seconds are 136 years, centred on 1970
NO_JOB = -1


class FinishedIndex:
    """Positions of finished jobs, sorted by key and then by finish time.

    A key's jobs lie side by side, oldest first, so what was known of it at any moment is one
    slice. Ties in time are ordered by a digest of the job's identity: the order, and with it
    every feature, is the same in whichever chunks the jobs were added.
    """

    def __init__(self) -> None:
        self._codes: dict[int, int] = {}
        self._stamps: Ints = np.empty(0, np.int64)  # code and finish tick in one integer
        self._identities: Digests = np.empty(0, np.uint64)
        self._positions: Ints = np.empty(0, np.int64)

    def add(self, keys: Digests, finish_time: Floats, identities: Digests, positions: Ints) -> None:
        """Add jobs, in any order.

        Parameters
        ----------
        keys : uint64 array of shape (n,)
            Digest of each job's key; ``NO_KEY`` leaves the job out.
        finish_time : float64 array of shape (n,), seconds since 1970 UTC
        identities : uint64 array of shape (n,)
        positions : int64 array of shape (n,)
            What `window` gives back for each job.
        """
        self._learn(keys)
        stamps = (self._codes_of(keys) << TICK_BITS) + _ticks(finish_time)
        order = np.lexsort((identities, stamps))
        order = order[keys[order] != NO_KEY]
        stamps, identities = stamps[order], identities[order]
        places = self._places(stamps, identities)
        self._stamps = np.insert(self._stamps, places, stamps)
        self._identities = np.insert(self._identities, places, identities)
        self._positions = np.insert(self._positions, places, positions[order])

    def window(self, keys: Digests, as_of: Floats, size: int) -> tuple[Ints, Ints]:
        """Find the newest jobs of each key that had finished before a moment.

        Parameters
        ----------
        keys : uint64 array of shape (n,)
        as_of : float64 array of shape (n,), seconds since 1970 UTC
            A job that finishes in the same quarter second is not seen.
        size : int, >= 1

        Returns
        -------
        positions : int64 array of shape (n, size)
            Newest first; ``NO_JOB`` where the key has no more.
        counts : int64 array of shape (n,)
            All jobs of the key that had finished, also beyond `size`.
        """
        codes = self._codes_of(keys)
        first = np.searchsorted(self._stamps, codes << TICK_BITS)
        end = np.searchsorted(self._stamps, (codes << TICK_BITS) + _ticks(as_of))
        counts = np.where(codes < 0, 0, end - first)
        places = end[:, None] - 1 - np.arange(size)
        seen = np.arange(size) < counts[:, None]
        if not len(self._positions):
            return np.full(places.shape, NO_JOB), counts
        return np.where(seen, self._positions[np.where(seen, places, 0)], NO_JOB), counts

    def _learn(self, keys: Digests) -> None:
        for key in np.unique(keys).tolist():
            self._codes.setdefault(key, len(self._codes))

    def _codes_of(self, keys: Digests) -> Ints:
        unique, inverse = np.unique(keys, return_inverse=True)
        known = [self._codes.get(key, -1) if key else -1 for key in unique.tolist()]
        return np.asarray(np.array(known, dtype=np.int64)[inverse])

    def _places(self, stamps: Ints, identities: Digests) -> Ints:
        places = np.searchsorted(self._stamps, stamps)
        for row in np.flatnonzero(stamps == self._stamp_at(places)):
            place = places[row]
            while self._precedes(place, stamps[row], identities[row]):
                place += 1
            places[row] = place
        return places

    def _stamp_at(self, places: Ints) -> Ints:
        padded = np.append(self._stamps, -1)
        return padded[places]

    def _precedes(self, place: int, stamp: int, identity: int) -> bool:
        return bool(
            place < len(self._stamps)
            and self._stamps[place] == stamp
            and self._identities[place] < identity
        )


def _ticks(time: Floats) -> Ints:
    shifted = np.floor(time * TICKS_PER_S) + (1 << (TICK_BITS - 1))
    return np.asarray(np.clip(shifted, 0, (1 << TICK_BITS) - 1), dtype=np.int64)
