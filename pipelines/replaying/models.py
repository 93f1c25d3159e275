"""What a replayed policy believes about pairs: a model that has not seen them, or other levels."""

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pipelines.interference.fit import ForestOptions, InterferenceData, calibrated_bundle
from pipelines.replaying.workloads import Workloads
from serving.inference.bundle import Bundle
from serving.inference.interference import slowdown_estimates

MODEL = "colocast-interference"
KIND = "configuration"
"""The novelty to calibrate for: both workloads of every pair are unknown to the model."""

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
    """Return what ``colocast-interference`` predicts, trained on the half that is not scheduled.

    Neither a pair nor a workload of the replay is known to it.
    """
    labels = workloads.labels
    data = InterferenceData(labels, workloads.learnt, min(1.0, float(labels["slowdown"].min())))
    bundle, _ = calibrated_bundle(data, ForestOptions(), seed, (KIND,))
    return of_bundle(workloads, bundle)


def of_bundle(workloads: Workloads, bundle: Bundle) -> Beliefs:
    """Return what a model predicts of the scheduled workloads, given their profiles."""
    names = workloads.truth.names
    pairs = pd.MultiIndex.from_product([names, names]).to_frame(index=False)
    pairs.columns = pd.Index(["job_key", "neighbour_key"])
    pairs["gpu_model"] = workloads.scheduled["gpu_model"].iloc[0]
    learnt = bundle.tables["profiles"]
    others = learnt[~learnt["job_key"].isin(names)]
    known = pd.concat([others, workloads.scheduled], ignore_index=True)
    asked = replace(bundle, tables={**bundle.tables, "profiles": known})
    estimates = slowdown_estimates(asked, pairs, "refuse")
    shape = len(names), len(names)
    value, upper = (
        np.maximum(1.0, estimates[end].to_numpy(np.float64).reshape(shape))
        for end in ("value", "upper")
    )
    return Beliefs(value, upper, bundle.version)
