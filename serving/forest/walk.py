"""A forest as plain arrays, walked by all rows and all trees at once.

``RandomForestRegressor.predict`` sends each tree through joblib, and a tree walks one row at a
time, mispredicting about every second branch. Here each step moves thousands of (tree, row)
walkers one level down with a handful of branch-free numpy calls.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from serving.forest.trees import Ints
from serving.inference.bundle import Floats

WALKERS = 131_072  # at once: fewer cost more calls, more leave the cache (measured)
ROWS = 1_024  # at once, for the same reason
FIRST_SIFT, SIFT_EVERY = 12, 5  # levels; sifting out walkers on leaves costs two of them
LARGEST = 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class CompiledForest:
    """A fitted scikit-learn forest in the layout of ``serving.forest.layout``.

    Attributes
    ----------
    words : array of shape (n_nodes,), int64
        Left child, threshold and input column of each node, in one word, so that a step reads
        memory once: from the top, the left child's index, 32 bits of ``LARGEST`` - threshold as
        `ordered` gives it, and ``column_bits`` bits of column. Adding the code of a feature above
        the threshold carries into the index, and the right child follows the left. A leaf is its
        own left child and nothing exceeds its threshold.
    leaves : array of shape (n_nodes,), bool
    values : array of shape (n_nodes, n_targets), float64
    roots : array of shape (n_trees,), int64
    column_bits : int
    n_features : int
    """

    words: Ints
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
        codes = column_codes(rows) << self.column_bits
        parts = [self._total(codes[at : at + ROWS]) for at in range(0, len(codes), ROWS)]
        total = np.concatenate(parts) if parts else np.empty((0, self.values.shape[1]))
        mean: Floats = total / len(self.roots)
        return mean[:, 0] if mean.shape[1] == 1 else mean

    def spread(self, rows: Floats) -> Floats:
        """Return the standard deviation over the trees for each row, shape (n, n_targets)."""
        codes = column_codes(rows) << self.column_bits
        found = np.empty((len(codes), self.values.shape[1]))
        for at in range(0, len(codes), ROWS):
            told = list(self._told(codes[at : at + ROWS]))
            found[at : at + ROWS] = np.concatenate(told).std(axis=0)
        return found

    def _total(self, codes: Ints) -> Floats:
        """Return the sum over the trees, shape (n, n_targets)."""
        total = np.zeros((len(codes), self.values.shape[1]))
        for told in self._told(codes):
            total += told.sum(axis=0)
        return total

    def _told(self, codes: Ints) -> Iterator[Floats]:
        """Yield what some trees at a time answer, shape (n_trees, n, n_targets)."""
        n, targets = len(codes), self.values.shape[1]
        trees = min(max(1, WALKERS // n), len(self.roots))
        starts = np.tile(np.arange(n) * codes.shape[1], trees)
        buffers = Buffers.of(trees * n)
        flat = codes.ravel()
        for at in range(0, len(self.roots), trees):
            roots = self.roots[at : at + trees]
            ends = self._walk(flat, np.repeat(roots, n), starts[: len(roots) * n], buffers)
            yield self.values.take(ends, axis=0).reshape(len(roots), n, targets)

    def _walk(self, codes: Ints, nodes: Ints, starts: Ints, buffers: "Buffers") -> Ints:
        """Return the leaf that each walker reaches.

        Parameters
        ----------
        codes : array of shape (n * n_columns,), int64
        nodes : array of shape (n_walkers,), int64
            Where each begins; overwritten.
        starts : array of shape (n_walkers,), int64
            Where each walker's row begins in `codes`.
        buffers : Buffers
            Of at least as many walkers.
        """
        self._descend(FIRST_SIFT, codes, nodes, starts, buffers)
        ends, walking = nodes, np.flatnonzero(~self.leaves.take(nodes))
        nodes, starts = nodes.take(walking), starts.take(walking)
        while len(nodes):
            self._descend(SIFT_EVERY, codes, nodes, starts, buffers)
            ends[walking] = nodes
            still = np.flatnonzero(~self.leaves.take(nodes))
            nodes, starts, walking = nodes.take(still), starts.take(still), walking.take(still)
        return ends

    def _descend(
        self, levels: int, codes: Ints, nodes: Ints, starts: Ints, buffers: "Buffers"
    ) -> None:
        """Move each walker so many levels down, in place."""
        words, columns = buffers.words[: len(nodes)], buffers.columns[: len(nodes)]
        mask, shift = (1 << self.column_bits) - 1, 32 + self.column_bits
        for _ in range(levels):
            # mode="clip" lets numpy write to `out` directly; every index is in range.
            self.words.take(nodes, out=words, mode="clip")
            np.bitwise_and(words, mask, out=columns)
            np.add(columns, starts, out=columns)
            codes.take(columns, out=nodes, mode="clip")
            np.add(nodes, words, out=nodes)
            np.right_shift(nodes, shift, out=nodes)


@dataclass(frozen=True, slots=True)
class Buffers:
    """Where a step leaves what it reads, shape (n_walkers,) each."""

    words: Ints
    columns: Ints

    @classmethod
    def of(cls, walkers: int) -> "Buffers":
        """Return buffers for so many walkers."""
        return cls(np.empty(walkers, np.int64), np.empty(walkers, np.int64))


def ordered(values: NDArray[np.float32]) -> Ints:
    """Return whole numbers in (0, LARGEST) that compare as `values` do.

    Parameters
    ----------
    values : array of float32, without NaN

    Examples
    --------
    >>> ordered(np.array([0.0, -0.0], np.float32)).tolist()
    [2147483648, 2147483648]
    >>> rising = ordered(np.array([-np.inf, -2.5, -1e-40, 0.0, 1e-40, 3.0, np.inf], np.float32))
    >>> bool((np.diff(rising) > 0).all()), bool(0 < rising[0]), bool(rising[-1] < LARGEST)
    (True, True, True)
    """
    bits = (values + np.float32(0.0)).view(np.int32)  # adding zero turns -0.0 into 0.0
    return (bits ^ ((bits >> 31) & 0x7FFFFFFF)).astype(np.int64) + 0x80000000


def column_codes(rows: Floats) -> Ints:
    """Return each feature twice, in the form that a word compares with.

    Parameters
    ----------
    rows : array of shape (n, n_features), float64
        A magnitude that float32 cannot hold counts as the largest.

    Returns
    -------
    array of shape (n, 2 * n_features), int64, in [0, LARGEST]
        Column ``f`` is feature ``f`` with missing above everything, which goes right; column
        ``n_features + f`` has missing below everything, which goes left.
    """
    with np.errstate(over="ignore"):
        narrow = np.asarray(rows).astype(np.float32, order="C")  # trees were grown on float32
    missing = np.isnan(narrow)
    narrow[missing] = 0.0
    high = ordered(narrow)
    low = high.copy()
    high[missing], low[missing] = LARGEST, 0
    return np.concatenate([high, low], axis=1)
