"""Effects in a table of labels, and what they say of each label from all other pairs."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from features.effect_jobs import Floats, stand
from features.effect_kernel import EffectKernel, EffectRows
from features.effect_tables import effect_tables
from features.effects import effects, left_out_estimates
from pipelines.interference.effects_fit import SHARING, Sharing, fitted_effects, noise_levels
from serving.inference.interference_rows import effect_rows

PAIR = ["job_key", "neighbour_key", "gpu_model"]


@dataclass(frozen=True, slots=True)
class LabelEffects:
    """What was learnt from labels.

    Attributes
    ----------
    tables : mapping of str to DataFrame
        As `effect_tables` gives.
    pairs : EffectRows
        The pair of each label.
    left_out : float64 array of shape (n_labels,)
        Log slowdown of each label by the effects that all other pairs show.
    """

    tables: Mapping[str, pd.DataFrame]
    pairs: EffectRows
    left_out: Floats


def label_effects(
    labels: pd.DataFrame,
    profiles: pd.DataFrame,
    seed: int,
    kernel: EffectKernel | None = None,
    sharing: Sharing = SHARING,
) -> LabelEffects:
    """Learn the effects of jobs on each other from labels.

    Parameters
    ----------
    labels : DataFrame, ``data.schemas.LABELS``
        Repeats of an ordered pair count as one measurement, their median.
    profiles : DataFrame, ``data.schemas.PROFILES``
        Of every job in `labels`.
    seed : int
    kernel : EffectKernel, optional
        Learnt from the labels without.
    sharing : Sharing
        What may be shared, where the kernel is learnt.
    """
    ordered = labels[PAIR].reset_index(drop=True)
    ordered["log"] = np.log(labels["slowdown"].to_numpy(np.float64))
    groups = ordered.groupby(PAIR, sort=True)
    pairs = groups["log"].median().reset_index()
    missing = stand(profiles)
    rows = effect_rows(profiles, pairs, missing)
    log_slowdown = pairs["log"].to_numpy(np.float64)
    together = unordered(pairs)
    if kernel is None:
        learnt = fitted_effects(rows, log_slowdown, together, seed, sharing)
    else:
        noise = kernel.noise_variance(rows) * noise_levels(rows, log_slowdown)
        learnt = effects(kernel, float(log_slowdown.mean()), rows, log_slowdown, noise)
    of_label = np.asarray(groups.ngroup(), dtype=np.intp)
    left_out = left_out_estimates(learnt, together)[of_label]
    return LabelEffects(effect_tables(learnt, missing), rows.at(of_label), left_out)


def unordered(pairs: pd.DataFrame) -> NDArray[np.intp]:
    """Return a number for each row, the same for both directions of a pair.

    Examples
    --------
    >>> unordered(pd.DataFrame({"job_key": ["a", "b", "a"], "neighbour_key": ["b", "a", "a"],
    ...     "gpu_model": "v100"})).tolist()
    [1, 1, 0]
    """
    sides = np.sort(pairs[["job_key", "neighbour_key"]].to_numpy(dtype=str), axis=1)
    keys = pd.DataFrame(sides).assign(gpu_model=pairs["gpu_model"].to_numpy(dtype=str))
    numbers = keys.groupby([0, 1, "gpu_model"], sort=True).ngroup()
    return np.asarray(numbers, dtype=np.intp)
