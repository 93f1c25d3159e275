"""A forest as plain arrays, walked by all rows and all trees at once.

``RandomForestRegressor.predict`` sends each tree through joblib, and a tree walks one row at a
time, mispredicting about every second branch. Here each step moves thousands of (tree, row)
walkers one level down with a handful of branch-free numpy calls.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from serving.inference.bundle import Floats

Ints = NDArray[np.int64]

WALKERS = 65_536  # at once: fewer cost more calls, more leave the cache (measured)
ROWS = 1_024  # at once, for the same reason
FIRST_SIFT, SIFT_EVERY = 8, 3  # levels; sifting out walkers on leaves costs half a level
LOW_WORD = 0xFFFFFFFF
ABOVE_ALL, BELOW_ALL = 0x7FFFFFFF, -0x80000000


@dataclass(frozen=True, slots=True)
class CompiledForest:
    """A fitted scikit-learn forest in the layout of ``serving.forest.layout``.

    Attributes
    ----------
    records : array of shape (n_nodes,), int64
        Threshold, left child and input column of each node, in one word, so that a step reads
        memory once: from the top, 32 bits of threshold as `ordered` gives it, the left child's
        index, and ``column_bits`` bits of column. The right child follows the left. A leaf is its
        own left child and nothing exceeds its threshold.
    leaves : array of shape (n_nodes,), bool
    values : array of shape (n_nodes, n_targets), float64
    roots : array of shape (n_trees,), int64
    column_bits : int
    n_features : int
    """

    records: Ints
    leaves: NDArray[np.bool_]
    values: Floats
    roots: Ints
    column_bits: int
    n_features: int

    def predict(self, rows: Floats) -> Floats:
        """Return the mean over the trees for each row.

        Parameters
        ----------
        rows : array of shape (n, n_features), float64
            NaN means missing and goes where scikit-learn sends it.

        Returns
        -------
        array of shape (n,), float64, or (n, n_targets) where there are several
            Equal to the estimator's answer but for the order of summation (about 1e-15).
        """
        codes = column_codes(rows)
        parts = [self._total(codes[at : at + ROWS]) for at in range(0, len(codes), ROWS)]
        total = np.concatenate(parts) if parts else np.empty((0, self.values.shape[1]))
        mean: Floats = total / len(self.roots)
        return mean[:, 0] if mean.shape[1] == 1 else mean

    def _total(self, codes: Ints) -> Floats:
        """Return the sum over the trees, shape (n, n_targets)."""
        n, targets = len(codes), self.values.shape[1]
        total = np.zeros((n, targets))
        trees = max(1, WALKERS // n)
        starts = np.tile(np.arange(n) * codes.shape[1], trees)
        flat = codes.ravel()
        for at in range(0, len(self.roots), trees):
            roots = self.roots[at : at + trees]
            ends = self._walk(flat, np.repeat(roots, n), starts[: len(roots) * n])
            total += self.values.take(ends, axis=0).reshape(len(roots), n, targets).sum(axis=0)
        return total

    def _walk(self, codes: Ints, nodes: Ints, starts: Ints) -> Ints:
        """Return the leaf that each walker reaches.

        Parameters
        ----------
        codes : array of shape (n * n_columns,), int64
        nodes : array of shape (n_walkers,), int64
            Where each begins; overwritten.
        starts : array of shape (n_walkers,), int64
            Where each walker's row begins in `codes`.
        """
        buffers = np.empty_like(nodes), np.empty_like(nodes), np.empty(len(nodes), dtype=np.bool_)
        for _ in range(FIRST_SIFT):
            self._step(codes, nodes, starts, buffers)
        ends = nodes.copy()
        walking = np.flatnonzero(~self.leaves.take(nodes))
        nodes, starts = nodes.take(walking), starts.take(walking)
        while len(nodes):
            for _ in range(SIFT_EVERY):
                self._step(codes, nodes, starts, buffers)
            ends[walking] = nodes
            still = np.flatnonzero(~self.leaves.take(nodes))
            nodes, starts, walking = nodes.take(still), starts.take(still), walking.take(still)
        return ends

    def _step(
        self,
        codes: Ints,
        nodes: Ints,
        starts: Ints,
        buffers: tuple[Ints, Ints, NDArray[np.bool_]],
    ) -> None:
        """Move each walker one level down, in place."""
        k = len(nodes)
        records, columns, is_right = (buffer[:k] for buffer in buffers)
        # mode="clip" lets numpy write to `out` directly; every index is in range by construction.
        self.records.take(nodes, out=records, mode="clip")
        np.bitwise_and(records, (1 << self.column_bits) - 1, out=columns)
        columns += starts
        codes.take(columns, out=nodes, mode="clip")
        np.greater(nodes, records, out=is_right)
        np.bitwise_and(records, LOW_WORD, out=nodes)
        np.right_shift(nodes, self.column_bits, out=nodes)
        nodes += is_right


def ordered(values: NDArray[np.float32]) -> Ints:
    """Return whole numbers in [-2**31, 2**31) that compare as `values` do.

    Parameters
    ----------
    values : array of float32, without NaN

    Examples
    --------
    >>> ordered(np.array([0.0, -0.0], np.float32)).tolist()
    [0, 0]
    >>> rising = ordered(np.array([-np.inf, -2.5, -1e-40, 0.0, 1e-40, 3.0, np.inf], np.float32))
    >>> bool((np.diff(rising) > 0).all())
    True
    """
    bits = (values + np.float32(0.0)).view(np.int32)  # adding zero turns -0.0 into 0.0
    return np.where(bits >= 0, bits, bits ^ np.int32(ABOVE_ALL)).astype(np.int64)


def column_codes(rows: Floats) -> Ints:
    """Return each feature twice, in the form that a record compares with.

    Parameters
    ----------
    rows : array of shape (n, n_features), float64
        A magnitude that float32 cannot hold counts as the largest.

    Returns
    -------
    array of shape (n, 2 * n_features), int64
        Column ``f`` is feature ``f`` with missing above everything, which goes right; column
        ``n_features + f`` has missing below everything, which goes left.
    """
    with np.errstate(over="ignore"):
        narrow = np.asarray(rows).astype(np.float32, order="C")  # trees were grown on float32
    missing = np.isnan(narrow)
    narrow[missing] = 0.0
    codes = ordered(narrow)
    high = np.where(missing, ABOVE_ALL, codes)
    low = np.where(missing, BELOW_ALL, codes)
    return np.concatenate([high, low], axis=1) << 32
