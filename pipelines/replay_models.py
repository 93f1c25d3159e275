"""What a replayed policy believes about pairs: a model that has not seen them, or other levels."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestRegressor

from features.pairs import pair_features
from pipelines.replay_workloads import Workloads

LEVEL = 0.9
"""Nominal coverage of the two-sided interval; its upper end leaves one twentieth above."""

TREES = 300

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Beliefs:
    """Predicted slowdowns of every scheduled workload (row) beside every other (column).

    Attributes
    ----------
    value, upper : array of shape (w, w), float64
        Each at least 1.
    source : str
    """

    value: Floats
    upper: Floats
    source: str


def oracle(workloads: Workloads) -> Beliefs:
    """Return the ground truth itself."""
    slowdown = workloads.truth.slowdown
    return Beliefs(slowdown, slowdown, "oracle")


def none(workloads: Workloads) -> Beliefs:
    """Return what is believed without a model: a card gives at most its whole time.

    Two jobs that together keep a card busy for more than its time get the time in proportion:
    the slowdown of both is the sum of their utilisations, where that exceeds 1. This is the
    utilisation term of DeepShare's node cost.
    """
    busy = workloads.truth.utilisation
    total = np.maximum(1.0, busy[:, None] + busy[None, :])
    return Beliefs(total, total, "heuristic")


def other_half(workloads: Workloads, seed: int) -> Beliefs:
    """Return a forest's predictions, trained on the pairs of the half that is not scheduled.

    Neither a pair nor a workload of the replay is known to it. Upper ends come from residuals
    out of bag, by the quantile that `LEVEL` says.

    Notes
    -----
    Random forest on both profiles and the physics of the pair, as ``colocast-interference``.
    """
    features = pair_features(workloads.learnt, workloads.labels)
    known = features.columns[features.notna().any()]
    target = np.log(np.maximum(1.0, workloads.labels["slowdown"].to_numpy(np.float64)))
    forest = RandomForestRegressor(
        TREES, min_samples_leaf=2, max_features=1 / 3, oob_score=True, random_state=seed, n_jobs=1
    ).fit(features[known], target)
    residual = target - forest.oob_prediction_
    above = max(0.0, float(np.quantile(residual, (1 + LEVEL) / 2)))
    names = workloads.truth.names
    pairs = pd.MultiIndex.from_product([names, names]).to_frame(index=False)
    pairs.columns = pd.Index(["job_key", "neighbour_key"])
    pairs["gpu_model"] = workloads.scheduled["gpu_model"].iloc[0]
    asked = pair_features(workloads.scheduled, pairs)[known]
    value = forest.predict(asked).reshape(len(names), len(names))
    upper = np.exp(value + above)
    return Beliefs(np.maximum(1.0, np.exp(value)), np.maximum(1.0, upper), "other_half")
