"""The quickest equal form of an estimator: what the service calls on every request."""

from collections.abc import Callable

import numpy as np

from data.errors import BadModelError
from serving.forest.layout import compiled_forest
from serving.forest.plain import PlainForest
from serving.forest.trees import TreeArrays, check_trees
from serving.forest.walk import CompiledForest
from serving.inference.bundle import Floats


def compiled(estimator: object) -> Callable[[Floats], Floats]:
    """Return a function from feature rows to raw answers, equal to the estimator's own.

    Parameters
    ----------
    estimator : object
        A fitted scikit-learn forest or pipeline, a LightGBM booster, or a prepared forest.

    Returns
    -------
    callable
        float64 array of shape (n, n_features) to float64 array (n,), or (n, n_targets) for a
        forest of several targets. Missing features are NaN.

    Raises
    ------
    BadModelError
        If a forest's trees are none, as ``check_trees``.

    Notes
    -----
    ``RandomForestRegressor.predict`` dispatches each tree through joblib, which for one row
    costs twelve times the trees themselves; summing ``tree_.predict`` in the same order gives
    the same floats. A booster answers on one thread: a request must not fan out over all cores.
    """
    if isinstance(estimator, PlainForest):
        return compiled_forest(estimator.trees, estimator.n_features_in_).predict
    members = getattr(estimator, "estimators_", None)
    if members is not None:
        trees: list[TreeArrays] = [member.tree_ for member in members]
        check_trees(trees, estimator.n_features_in_)  # type: ignore[attr-defined] # untyped packages
        return _forest([tree.predict for tree in trees])  # type: ignore[attr-defined]
    predict: Callable[..., Floats] = estimator.predict  # type: ignore[attr-defined] # untyped packages
    if hasattr(estimator, "num_feature"):
        return lambda rows: np.asarray(predict(rows, num_threads=1), dtype=np.float64)
    return lambda rows: np.asarray(predict(rows), dtype=np.float64)


def tree_spread(
    estimator: object, predict: Callable[[Floats], Floats]
) -> Callable[[Floats], Floats]:
    """Return a function from feature rows to how much a forest's trees differ.

    Parameters
    ----------
    estimator : object
        As `compiled` takes it.
    predict : callable
        What `compiled` made of it.

    Returns
    -------
    callable
        float64 array of shape (n, n_features) to float64 array (n, n_targets): the standard
        deviation of the trees' answers.

    Raises
    ------
    BadModelError
        If the estimator is no forest.
    """
    forest = getattr(predict, "__self__", None)
    if isinstance(forest, CompiledForest):
        return forest.spread
    members = getattr(estimator, "estimators_", None)
    if members is None:
        raise BadModelError(f"found a {type(estimator).__name__}, wanted a forest")
    trees = [member.tree_.predict for member in members]

    def spread(rows: Floats) -> Floats:
        narrow = np.ascontiguousarray(rows, dtype=np.float32)
        told = np.stack([np.asarray(tree(narrow)).reshape(len(narrow), -1) for tree in trees])
        return np.asarray(told.std(axis=0), dtype=np.float64)

    return spread


def _forest(trees: list[Callable[..., Floats]]) -> Callable[[Floats], Floats]:
    def predict(rows: Floats) -> Floats:
        # The trees were grown on float32; they read nothing else.
        narrow = np.ascontiguousarray(rows, dtype=np.float32)
        total = trees[0](narrow)
        for tree in trees[1:]:
            total = total + tree(narrow)
        mean = np.asarray(total / len(trees), dtype=np.float64).reshape(len(narrow), -1)
        return mean[:, 0] if mean.shape[1] == 1 else mean

    return predict
