"""Grow the trees of the two runtime models."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import lightgbm
import numpy as np
from numpy.typing import NDArray

from features.history import ANCHOR, CLUSTER_FEATURES, USER_FEATURES, USER_OFFSET
from pipelines.runtime.rows import FinishedRows, Floats


@dataclass(frozen=True, slots=True)
class Boosting:
    """How the trees are grown, and how the user's correction is blended in.

    Number and size of the trees are what DRAC's jobs before 24 May 2021 choose, of nine candidates
    (``python -m benchmarks.quality_choice``).

    Attributes
    ----------
    cluster_trees, user_trees, leaves : int
    learning_rate, penalty : float
        `penalty` is the L2 penalty on leaf values, in rows.
    smallest_leaf : int
        Rows a leaf needs; a twentieth of all rows where that is fewer.
    loss : {"fair", "regression"}
        As LightGBM names it; the second is the squared error.
    fair_c : float
        With the loss ``fair``, error of the log runtime from which on it grows linearly: a job
        that fails at once must not pull down all that run for hours.
    most_alike : int
        Jobs of one batch that are learnt from.
    blend_jobs : float
        Finished or running jobs of a user after which the correction counts half.
    """

    cluster_trees: int = 200
    user_trees: int = 200
    leaves: int = 31
    learning_rate: float = 0.05
    penalty: float = 100.0
    smallest_leaf: int = 100
    loss: Literal["fair", "regression"] = "fair"
    fair_c: float = 0.4
    most_alike: int = 3
    blend_jobs: float = 4.0


DEFAULT_BOOSTING = Boosting()


def boosted(
    rows: FinishedRows, seed: int, boosting: Boosting
) -> tuple[lightgbm.Booster, lightgbm.Booster]:
    """Fit the cluster trees to what the anchor leaves, the user trees to what the user's leaves.

    Trees of the user that start from what the cluster trees leave count twice what both know of
    the newest jobs: on DRAC before 24 May 2021 they lose 0.04 of log R² at the start.

    Parameters
    ----------
    rows : FinishedRows
    seed : int
    boosting : Boosting

    Returns
    -------
    cluster, user : lightgbm.Booster
        Raw answers are log seconds to add to the anchor, and to anchor and user offset.
    """
    rows = rows.thinned(boosting.most_alike, seed)
    params = _params(len(rows), seed, boosting)
    inputs = rows.features[list(CLUSTER_FEATURES)].to_numpy(np.float32)
    start = rows.features[ANCHOR].to_numpy(np.float64)
    cluster = _booster(inputs, rows.runtime_log, start, params, boosting.cluster_trees)
    start = start + rows.features[USER_OFFSET].to_numpy(np.float64)
    inputs = rows.features[list(USER_FEATURES)].to_numpy(np.float32)
    return cluster, _booster(inputs, rows.runtime_log, start, params, boosting.user_trees)


def _booster(
    inputs: NDArray[np.float32],
    target: Floats,
    start: Floats,
    params: Mapping[str, float | str],
    trees: int,
) -> lightgbm.Booster:
    data = lightgbm.Dataset(inputs, target, init_score=start, params=dict(params))
    return lightgbm.train(dict(params), data, num_boost_round=trees)


def _params(n_rows: int, seed: int, boosting: Boosting) -> dict[str, float | str]:
    return {
        "objective": boosting.loss,
        "fair_c": boosting.fair_c,
        "num_leaves": boosting.leaves,
        "learning_rate": boosting.learning_rate,
        "min_data_in_leaf": max(2, min(boosting.smallest_leaf, n_rows // 20)),
        "lambda_l2": boosting.penalty,
        "extra_trees": "true",
        "feature_fraction": 0.5,
        "bagging_fraction": 0.7,
        "bagging_freq": 1,
        "max_bin": 63,
        "seed": seed,
        "deterministic": "true",
        "force_row_wise": "true",
        "num_threads": 1,  # on two shared cores a second thread waits more than it works
        "verbosity": -1,
    }
