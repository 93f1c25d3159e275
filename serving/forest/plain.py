"""A fitted forest as nothing but arrays: what serving needs of it, without scikit-learn.

scikit-learn and skops take 0.7 s and 90 MB of every worker. So a forest is read and compared with
its compiled form once, elsewhere, and kept as its trees' arrays with scikit-learn's own answers to
the rows of ``serving.champions.probing``.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from data.errors import BadModelError
from serving.forest.trees import Ints, TreeArrays
from serving.inference.bundle import Floats

FIELDS = (
    "children_left",
    "children_right",
    "feature",
    "threshold",
    "missing_go_to_left",
    "value",
)
SIZES, FEATURES, ANSWERS = "sizes", "n_features", "answers"


@dataclass(slots=True)
class PlainTree:
    """The fields of ``serving.forest.trees.TreeArrays``."""

    children_left: Ints
    children_right: Ints
    feature: Ints
    threshold: Floats
    missing_go_to_left: NDArray[np.uint8]
    value: Floats


@dataclass(frozen=True, slots=True)
class PlainMember:
    """One tree, under the name that a fitted scikit-learn tree has it."""

    tree_: PlainTree


@dataclass(frozen=True, slots=True)
class PlainForest:
    """A forest with scikit-learn's names.

    Attributes
    ----------
    estimators_ : tuple of PlainMember
    n_features_in_ : int
    answers : array of shape (n,) or (n, n_targets), float64
        What scikit-learn answers to the rows that the model is probed with.
    """

    estimators_: tuple[PlainMember, ...]
    n_features_in_: int
    answers: Floats

    @property
    def trees(self) -> list[PlainTree]:
        """The trees, in order."""
        return [member.tree_ for member in self.estimators_]


def write_forest(path: Path, trees: Sequence[TreeArrays], n_features: int, answers: Floats) -> None:
    """Write a forest's arrays; the file appears whole or not at all.

    Parameters
    ----------
    path : Path
    trees : sequence of sklearn.tree._tree.Tree
    n_features : int
    answers : array of shape (n,) or (n, n_targets), float64

    Raises
    ------
    OSError
        If it cannot be written.
    """
    arrays = {name: np.concatenate([getattr(tree, name) for tree in trees]) for name in FIELDS}
    sizes = np.array([len(tree.children_left) for tree in trees])
    extra = {SIZES: sizes, FEATURES: np.array(n_features), ANSWERS: answers}
    path.parent.mkdir(exist_ok=True)
    beside = path.with_suffix(".incoming.npz")
    np.savez(beside, allow_pickle=False, **arrays, **extra)
    beside.replace(path)


def read_forest(path: Path) -> PlainForest:
    """Return the forest that `write_forest` wrote.

    Raises
    ------
    BadModelError
        If the file is damaged, or not such a file.
    """
    try:
        with np.load(path, allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
        ends = np.cumsum(arrays[SIZES])[:-1]
        columns = [np.split(arrays[name], ends) for name in FIELDS]
        members = tuple(PlainMember(PlainTree(*parts)) for parts in zip(*columns, strict=True))
        return PlainForest(members, int(arrays[FEATURES]), arrays[ANSWERS])
    except (BadZipFile, KeyError, OSError, TypeError, ValueError) as error:
        raise BadModelError(f"{path}: found {error!r}, wanted a prepared forest") from error
