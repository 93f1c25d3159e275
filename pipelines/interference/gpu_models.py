"""Measure the interference model on a GPU model on which hardly any pair was measured."""

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd

from data.errors import SettingError
from pipelines.interference.calibration import calibrated_bundle
from pipelines.interference.few_pairs import averaged, measured_positions
from pipelines.interference.fit import ForestOptions, InterferenceData
from pipelines.judged import worst_coverage
from pipelines.metrics import estimate_metrics, r2
from pipelines.splits import Fold
from serving.inference.interference import NEW_FAMILY, NEW_PAIR, slowdown_estimates

DRAWS = 2  # of the measured pairs; each is a training of its own


def gpu_model_rows(
    data: InterferenceData, measured: Sequence[int], seed: int, options: ForestOptions | None = None
) -> list[dict[str, object]]:
    """Return one flat row for each GPU model and number of pairs measured there.

    Parameters
    ----------
    data : InterferenceData
        Labels on two GPU models or more. Jobs were profiled on each of them.
    measured : sequence of int
        Pairs of each job that are measured on the new GPU model and learnt from with all labels
        of the others.
    seed : int
    options : ForestOptions, optional

    Returns
    -------
    list of dict
        ``split`` (``gpu_model/<name>``, with ``_k<n>`` as in the other splits), ``k``, ``n``,
        the keys of `estimate_metrics`, ``coverage_90_worst`` (of families) and ``baseline_r2`` of
        each neighbour's mean slowdown on the other GPU models; ``draws`` and ``r2_sd`` over the
        choices of pairs.

    Raises
    ------
    SettingError
        If all labels are of one GPU model.
    """
    names = sorted(set(data.labels["gpu_model"].astype(str)))
    if len(names) < 2:
        raise SettingError(f"found labels of {len(names)} GPU model, wanted two or more")
    options = options or ForestOptions()
    rows = []
    for name in names:
        for k in measured:
            draws = list(_draws(data, name, k, seed, options))
            split = f"gpu_model/{name}" + (f"_k{k}" if k else "")
            rows.append({"split": split, **averaged(draws), "k": k})
    return rows


def _draws(
    data: InterferenceData, name: str, k: int, seed: int, options: ForestOptions
) -> Iterator[dict[str, object]]:
    labels = data.labels
    is_new = (labels["gpu_model"] == name).to_numpy()
    fold = Fold(name, np.flatnonzero(~is_new), np.flatnonzero(is_new))
    for draw in range(DRAWS if k else 1):
        shown = measured_positions(labels, fold, k, np.random.default_rng(seed + draw))
        rest = np.setdiff1d(fold.test, shown)
        learnt = data.of_rows(np.sort(np.concatenate([fold.train, shown])))
        asked = labels.iloc[rest]
        bundle, _ = calibrated_bundle(learnt, options, seed, (NEW_PAIR, NEW_FAMILY))
        yield _scores(asked, slowdown_estimates(bundle, asked), labels.iloc[fold.train])


def _scores(
    asked: pd.DataFrame, estimates: pd.DataFrame, others: pd.DataFrame
) -> dict[str, object]:
    measured = asked["slowdown"].to_numpy(np.float64)
    means = others.groupby("neighbour_key")["slowdown"].mean()
    trivial = asked["neighbour_key"].map(means).fillna(others["slowdown"].mean())
    return {
        **estimate_metrics(measured, estimates),
        "coverage_90_worst": worst_coverage(measured, estimates, asked["family"]),
        "baseline_r2": r2(measured, trivial.to_numpy(np.float64)),
    }
