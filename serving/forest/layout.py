"""From a fitted scikit-learn forest to the arrays of `CompiledForest`, checked on the way."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from data.errors import BadModelError
from serving.forest.trees import NO_CHILD, Ints, TreeArrays, check_trees
from serving.forest.walk import LARGEST, CompiledForest, ordered
from serving.inference.bundle import Floats


@dataclass(frozen=True, slots=True)
class Nodes:
    """All trees' nodes behind one another, as scikit-learn numbers them within each tree.

    Attributes
    ----------
    left, right : array of shape (n_nodes,), int64
        Index into these arrays; -1 at a leaf.
    column : array of shape (n_nodes,), int64
        Of ``serving.forest.walk.column_codes``.
    threshold : array of shape (n_nodes,), int64
        As `ordered` gives it.
    value : array of shape (n_nodes, n_targets), float64
    offsets : array of shape (n_trees,), int64
        The root of each tree.
    """

    left: Ints
    right: Ints
    column: Ints
    threshold: Ints
    value: Floats
    offsets: Ints


def compiled_forest(trees: Sequence[TreeArrays], n_features: int) -> CompiledForest:
    """Return the compiled form of a forest.

    Parameters
    ----------
    trees : sequence of sklearn.tree._tree.Tree
    n_features : int

    Raises
    ------
    BadModelError
        As `check_trees`, or if the forest is too large for 31 bits of child and column.
    """
    check_trees(trees, n_features)
    nodes = _joined(trees, n_features)
    order = _siblings_together(nodes)
    bits = int(2 * n_features - 1).bit_length()
    if len(order).bit_length() + bits > 31:  # the sign, 32 bits of threshold, and these
        raise BadModelError(
            f"found a forest of {len(order)} nodes on {n_features} features, "
            f"wanted at most {1 << max(0, 31 - bits)} nodes"
        )
    return CompiledForest(
        words=_words(nodes, order, bits),
        leaves=nodes.left[order] == NO_CHILD,
        values=nodes.value[order],
        roots=nodes.offsets,
        column_bits=bits,
        n_features=n_features,
    )


def _joined(trees: Sequence[TreeArrays], n_features: int) -> Nodes:
    sizes = np.array([len(tree.children_left) for tree in trees], dtype=np.int64)
    offsets = np.cumsum(sizes) - sizes
    shift = np.repeat(offsets, sizes)

    def joined(name: str) -> NDArray[np.float64]:
        return np.concatenate([getattr(tree, name) for tree in trees])

    left = joined("children_left").astype(np.int64)
    leaf = left == NO_CHILD
    feature = joined("feature").astype(np.int64)
    to_left = joined("missing_go_to_left").astype(np.bool_)
    return Nodes(
        left=np.where(leaf, NO_CHILD, left + shift),
        right=np.where(leaf, NO_CHILD, joined("children_right").astype(np.int64) + shift),
        column=np.where(leaf, 0, feature + n_features * to_left),
        threshold=np.where(leaf, LARGEST, ordered(_narrowed(joined("threshold")))),
        value=joined("value")[:, :, 0],
        offsets=offsets,
    )


def _narrowed(threshold: Floats) -> NDArray[np.float32]:
    """Return the largest float32 at most each threshold: no float32 feature tells the two apart."""
    with np.errstate(over="ignore"):
        narrow = threshold.astype(np.float32)
    above = narrow.astype(np.float64) > threshold
    down = np.nextafter(narrow, np.float32(-np.inf))
    return np.where(above, down, narrow).astype(np.float32)


def _siblings_together(nodes: Nodes) -> Ints:
    """Return the order that puts each right child behind its left one, level by level.

    Each tree's nodes stay together, so that one block of walkers touches little memory, and its
    root stays first.
    """
    return np.concatenate([_breadth_first(nodes, root) for root in nodes.offsets])


def _breadth_first(nodes: Nodes, root: np.int64) -> Ints:
    levels = [np.array([root], dtype=np.int64)]
    while len(levels[-1]):
        inner = levels[-1][nodes.left[levels[-1]] != NO_CHILD]
        levels.append(np.stack([nodes.left[inner], nodes.right[inner]], axis=1).ravel())
    return np.concatenate(levels)


def _words(nodes: Nodes, order: Ints, bits: int) -> Ints:
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    child = np.where(nodes.left == NO_CHILD, place, place[nodes.left])
    words = (child << (32 + bits)) | ((LARGEST - nodes.threshold) << bits) | nodes.column
    return np.asarray(words[order], dtype=np.int64)
