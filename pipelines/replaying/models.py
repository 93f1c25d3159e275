"""What a replayed policy believes about pairs: a model that has not seen them, or other levels."""

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from data.errors import SettingError
from pipelines.interference.calibration import calibrated_bundle
from pipelines.interference.fit import ForestOptions, InterferenceData
from pipelines.replaying.workloads import Workloads
from serving.inference.bundle import Bundle
from serving.inference.interference import slowdown_estimates

MODEL = "colocast-interference"
KIND = "configuration"
"""The novelty to calibrate for: both workloads of every pair are unknown to the model."""
PAIR = "pair"
"""Where the workloads are known, but not together."""

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

    Raises
    ------
    SettingError
        If no signal was measured.
    """
    _need_signals(workloads, "none")
    busy = workloads.truth.utilisation
    total = np.maximum(1.0, busy[:, None] + busy[None, :])
    return Beliefs(total, total, "heuristic")


def other_half(workloads: Workloads, seed: int) -> Beliefs:
    """Return what ``colocast-interference`` predicts, trained on the half that is not scheduled.

    Neither a pair nor a workload of the replay is known to it.

    Raises
    ------
    SettingError
        If no signal was measured: then nothing is known of a workload without a pair of its own.
    """
    _need_signals(workloads, "other-half")
    labels = workloads.labels
    data = InterferenceData(labels, workloads.learnt, min(1.0, float(labels["slowdown"].min())))
    bundle, _ = calibrated_bundle(data, ForestOptions(), seed, (KIND,))
    return of_bundle(workloads, bundle)


def other_pairs(workloads: Workloads, seed: int, options: ForestOptions | None = None) -> Beliefs:
    """Return what models predict that know the workloads, each by half of their pairs.

    The measured pairs of the scheduled workloads are split at random; each half is predicted by
    a model that was trained on the other one, and pairs that were not measured by the mean of
    both: no model has seen a pair that it predicts.
    """
    labels = workloads.scheduled_labels
    names = workloads.truth.names
    at = {name: index for index, name in enumerate(names)}
    job, neighbour = (labels[name].map(at).to_numpy() for name in ("job_key", "neighbour_key"))
    low, high = np.minimum(job, neighbour), np.maximum(job, neighbour)
    coin = np.random.default_rng(seed).permutation(len(names) ** 2).reshape(len(names), -1) % 2
    fold = coin[low, high]
    floor = min(1.0, float(labels["slowdown"].min()))
    halves = []
    for which in (0, 1):
        rows = labels[fold == which].reset_index(drop=True)
        data = InterferenceData(rows, workloads.scheduled, floor)
        bundle, _ = calibrated_bundle(data, options or ForestOptions(), seed, (PAIR,))
        halves.append(of_bundle(workloads, bundle))
    return _crossed(workloads, halves, np.triu(coin) + np.triu(coin, 1).T)


def _crossed(workloads: Workloads, halves: list[Beliefs], fold: NDArray[np.int64]) -> Beliefs:
    """Return each pair's beliefs from the half that it is not in."""
    first, second = halves
    known = workloads.truth.is_measured | workloads.truth.is_measured.T

    def crossed(one: Floats, other: Floats) -> Floats:
        seen_by_neither = np.where(fold == 0, other, one)
        return np.asarray(np.where(known, seen_by_neither, (one + other) / 2), np.float64)

    value, upper = crossed(first.value, second.value), crossed(first.upper, second.upper)
    return Beliefs(value, upper, f"{first.source}, crossed")


def _need_signals(workloads: Workloads, model: str) -> None:
    if not workloads.has_signals:
        raise SettingError(
            f"model {model} predicts from device counters, and none of the workloads has any;"
            " wanted --model other-pairs, oracle, or a registered model that knows the workloads"
        )


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
