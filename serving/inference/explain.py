"""Where one slowdown estimate comes from: which inputs moved it, and by how much."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from data.domain import PROFILE_COLUMNS, Estimate, Pair
from serving.forest.trees import NO_CHILD, TreeArrays
from serving.inference.bundle import Bundle, Floats
from serving.inference.interference_rows import ForestQuestion

SHOWN_INPUTS = 12
EFFECTS = "effects"
"""Name of what measured pairs say of both jobs, apart from the forest."""


@dataclass(frozen=True, slots=True)
class Contribution:
    """How far one input moved the prediction.

    Attributes
    ----------
    feature : str
        Input column; ``rest`` sums up those that are not shown, ``effects`` is what measured
        pairs say of both jobs.
    value : float, optional
        What it was; None where it is missing.
    amount : float
        On the model's scale.
    """

    feature: str
    value: float | None
    amount: float


@dataclass(frozen=True, slots=True)
class Explanation:
    """One estimate, taken apart.

    Attributes
    ----------
    pair : Pair
    estimate : Estimate
    scale : {"identity", "log"}
        Of `base` and the amounts; on ``log`` they are logarithms of factors.
    base : float
        What the model says before it looks at any input: the mean over its training rows.
    contributions : tuple of Contribution
        Effects first, then the forest's inputs, largest first; together with `base` they sum to
        the model's raw answer.
    job_profile, neighbour_profile : mapping of str to float
        The measured exclusive profiles behind the inputs; a missing signal is absent.
    """

    pair: Pair
    estimate: Estimate
    scale: Literal["identity", "log"]
    base: float
    contributions: tuple[Contribution, ...]
    job_profile: Mapping[str, float]
    neighbour_profile: Mapping[str, float]


def forest_contributions(
    bundle: Bundle, row: Floats, shown: int = SHOWN_INPUTS
) -> tuple[float, tuple[Contribution, ...]]:
    """Return a forest's base value and what each input adds to it, for one row.

    Parameters
    ----------
    bundle : Bundle
        Of one target. An estimator that is no forest has no contributions.
    row : array of shape (n_features,), float64
    shown : int
        Inputs to name; the others are summed up.

    Notes
    -----
    Each split on the row's path through a tree changes the mean of the training rows that are
    left; the change is credited to the split's feature, and averaged over the trees. Palczewska
    et al., "Interpreting random forest models using a feature contribution method", IRI 2013.
    """
    estimators = getattr(bundle.estimator, "estimators_", None)
    if estimators is None:
        return float(bundle.predict(row[None, :])[0]), ()
    amounts, base = np.zeros(len(row)), 0.0
    for estimator in estimators:
        base += float(estimator.tree_.value[0, 0, 0])
        _add_path(amounts, estimator.tree_, row)
    amounts /= len(estimators)
    return base / len(estimators), _largest(bundle.spec.features, row, amounts, shown)


def slowdown_contributions(
    bundle: Bundle, question: ForestQuestion, shown: int = SHOWN_INPUTS
) -> tuple[float, tuple[Contribution, ...]]:
    """Return the base value of one slowdown and what its effects and each input add to it.

    Parameters
    ----------
    bundle : Bundle
        Of ``colocast-interference``.
    question : ForestQuestion, one row
    shown : int
        Inputs of the forest to name.
    """
    row = question.rows.to_numpy(np.float64)[0]
    mean, inputs = forest_contributions(bundle, row, shown)
    weight, effect = float(question.weight[0]), float(question.base[0])
    weighed = tuple(replace(each, amount=weight * each.amount) for each in inputs)
    if not effect:
        return weight * mean, weighed
    return weight * mean, (Contribution(EFFECTS, None, effect), *weighed)


def _add_path(amounts: Floats, tree: TreeArrays, row: Floats) -> None:
    node = 0
    while tree.children_left[node] != NO_CHILD:
        feature = tree.feature[node]
        below = _child(tree, node, np.float32(row[feature]))
        amounts[feature] += tree.value[below, 0, 0] - tree.value[node, 0, 0]
        node = below


def _child(tree: TreeArrays, node: int, value: np.float32) -> int:
    if np.isnan(value):
        to_left = bool(tree.missing_go_to_left[node])
    else:
        to_left = bool(value <= tree.threshold[node])
    return int(tree.children_left[node] if to_left else tree.children_right[node])


def _largest(
    features: Sequence[str], row: Floats, amounts: Floats, shown: int
) -> tuple[Contribution, ...]:
    order: NDArray[np.intp] = np.argsort(-np.abs(amounts), kind="stable")
    used = order[amounts[order] != 0.0]
    named = [
        Contribution(features[i], None if np.isnan(row[i]) else float(row[i]), float(amounts[i]))
        for i in used[:shown]
    ]
    rest = float(amounts[used[shown:]].sum())
    return (*named, Contribution("rest", None, rest)) if len(used) > shown else tuple(named)


def profile_of(profiles: pd.DataFrame, job_key: str, gpu_model: str) -> dict[str, float]:
    """Return the measured signals of a job key on a GPU model; a missing one is absent.

    Parameters
    ----------
    profiles : DataFrame, ``data.schemas.PROFILES``
    """
    at = (profiles["job_key"] == job_key) & (profiles["gpu_model"] == gpu_model)
    signals = profiles.loc[at, profiles.columns.intersection(list(PROFILE_COLUMNS))]
    if signals.empty:
        return {}
    return {str(name): float(value) for name, value in signals.iloc[0].dropna().items()}
