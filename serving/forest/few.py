"""A forest for a handful of rows: the same trees, walked by LightGBM's native predictor.

A numpy step costs about a microsecond however few walkers it moves, so below some ten rows the
walk of ``serving.forest.walk`` is all overhead. LightGBM is installed anyway, and its tree is the
same thing: go left if the feature is at most the threshold, missing to a stored side.
"""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from serving.forest.trees import NO_CHILD, TreeArrays
from serving.inference.bundle import Floats

MISSING_IS_NAN, DEFAULT_LEFT = 8, 2  # bits of LightGBM's decision_type


class FewRows:
    """The mean over a forest's trees, quick for few rows.

    Parameters
    ----------
    trees : sequence of sklearn.tree._tree.Tree
        Of one target, and checked by ``serving.forest.trees`` before.
    n_features : int
    """

    def __init__(self, trees: Sequence[TreeArrays], n_features: int) -> None:
        # Not at the start of a process: who imports it first may do without scikit-learn.
        import lightgbm  # noqa: PLC0415

        self._booster = lightgbm.Booster(model_str=forest_text(trees, n_features))

    def predict(self, rows: Floats) -> Floats:
        """Return the mean over the trees for each row.

        Parameters
        ----------
        rows : array of shape (n, n_features), float64
            NaN means missing.

        Returns
        -------
        array of shape (n,), float64
        """
        narrow = rows.astype(np.float32).astype(np.float64)  # trees were grown on float32
        return np.asarray(self._booster.predict(narrow, num_threads=1), dtype=np.float64)


def forest_text(trees: Sequence[TreeArrays], n_features: int) -> str:
    """Return the forest in LightGBM's text format, version 4, which ``average_output`` averages."""
    texts = [_tree_text(number, tree) for number, tree in enumerate(trees)]
    head = (
        "tree",
        "version=v4",
        "num_class=1",
        "num_tree_per_iteration=1",
        "label_index=0",
        f"max_feature_idx={n_features - 1}",
        "objective=regression",
        "average_output",
        f"feature_names={_joined(f'f{i}' for i in range(n_features))}",
        f"feature_infos={_joined('none' for _ in range(n_features))}",
        f"tree_sizes={_joined(len(text) for text in texts)}",
    )
    return "\n".join((*head, "", "".join(texts) + "end of trees", "", ""))


def _tree_text(number: int, tree: TreeArrays) -> str:
    leaf = np.asarray(tree.children_left) == NO_CHILD
    leaves = int(leaf.sum())
    lines = [f"Tree={number}", f"num_leaves={leaves}", "num_cat=0"]
    if leaves > 1:
        lines += _splits(tree, leaf)
    lines += [f"leaf_value={_joined(_exact(tree.value[leaf, 0, 0]))}"]
    return "\n".join((*lines, "is_linear=0", "shrinkage=1", "", "", ""))


def _splits(tree: TreeArrays, leaf: NDArray[np.bool_]) -> list[str]:
    inner = ~leaf
    # LightGBM counts splits from 0 and leaves from -1 downwards.
    place = np.where(leaf, ~(np.cumsum(leaf) - 1), np.cumsum(inner) - 1)
    to_left = tree.missing_go_to_left[inner].astype(np.bool_)
    fields = {
        "split_feature": tree.feature[inner].tolist(),
        "threshold": _exact(tree.threshold[inner]),
        "decision_type": (MISSING_IS_NAN + DEFAULT_LEFT * to_left).tolist(),
        "left_child": place[tree.children_left[inner]].tolist(),
        "right_child": place[tree.children_right[inner]].tolist(),
    }
    # Read, and never asked for.
    zeros, ones = _repeated("0", int(inner.sum())), _repeated("1", int(leaf.sum()))
    unused = [f"{name}={zeros}" for name in ("split_gain", "internal_value", "internal_count")]
    unused += [f"{name}={ones}" for name in ("leaf_weight", "leaf_count")]
    return [f"{name}={_joined(values)}" for name, values in fields.items()] + unused


def _exact(values: Floats) -> list[float]:
    # Its text reads back as the same float64; an infinite one is out of any reach.
    found: list[float] = np.nan_to_num(values).tolist()
    return found


def _repeated(word: str, count: int) -> str:
    return f"{word} " * (count - 1) + word


def _joined(values: Iterable[object]) -> str:
    return " ".join(map(str, values))
