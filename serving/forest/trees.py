"""What is read of a tree, and whether it is one: nothing walks a tree before it is known to be.

scikit-learn and LightGBM do not check the indices that they read from a file. A damaged or crafted
one would make them read anywhere, or walk a circle for ever, in the middle of a worker.
"""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from data.errors import BadModelError
from serving.inference.bundle import Floats

Ints = NDArray[np.int64]

NO_CHILD = -1


class TreeArrays(Protocol):
    """What is read of ``sklearn.tree._tree.Tree``."""

    children_left: Ints
    children_right: Ints
    feature: Ints
    threshold: Floats
    missing_go_to_left: NDArray[np.uint8]
    value: Floats


def check_trees(trees: Sequence[TreeArrays], n_features: int) -> None:
    """Refuse whatever is not a binary tree over the features, with a number at each leaf.

    Parameters
    ----------
    trees : sequence of sklearn.tree._tree.Tree
    n_features : int

    Raises
    ------
    BadModelError
        If an index points outside its tree or the features, a node has one child, two parents or
        itself below it, a threshold is NaN, or a value is no finite number. Names the tree.
    """
    for number, tree in enumerate(trees):
        if not _is_sound(tree, n_features):
            raise unsound(number, n_features)


def unsound(number: int, n_features: int) -> BadModelError:
    """Return the error that refuses a tree."""
    wanted = f"a binary tree over {n_features} features"
    return BadModelError(f"tree {number}: found inconsistent nodes, wanted {wanted}")


def is_binary_tree(parents: Ints, left: Ints, right: Ints, n_nodes: int) -> bool:
    """Return whether every node but the first is the child of exactly one node before it.

    Parameters
    ----------
    parents, left, right : array of shape (n_inner,), int64
        The nodes that have children, and those.

    Examples
    --------
    >>> parents, right = np.array([0, 1]), np.array([4, 3])
    >>> is_binary_tree(parents, np.array([1, 2]), right, 5)
    True
    >>> is_binary_tree(parents, np.array([1, 0]), right, 5)  # a circle
    False
    """
    children = np.concatenate([left, right])
    # A child behind its parent rules out circles; both libraries number nodes that way.
    return (
        n_nodes > 0
        and np.array_equal(np.sort(children), np.arange(1, n_nodes))
        and bool((children > np.tile(parents, 2)).all())
    )


def _is_sound(tree: TreeArrays, n_features: int) -> bool:
    left, right = np.asarray(tree.children_left), np.asarray(tree.children_right)
    inner = left != NO_CHILD
    others = tree.feature, tree.threshold, tree.missing_go_to_left, tree.value
    if {len(array) for array in (right, *others)} != {len(left)} or not np.array_equal(
        inner, right != NO_CHILD
    ):
        return False
    feature = tree.feature[inner]
    return (
        is_binary_tree(np.flatnonzero(inner), left[inner], right[inner], len(left))
        and bool(((feature >= 0) & (feature < n_features)).all())
        and not np.isnan(tree.threshold[inner]).any()  # infinite: whatever is known goes left
        and bool(np.isfinite(tree.value).all())
    )
