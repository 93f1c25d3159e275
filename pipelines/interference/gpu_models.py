"""Measure the interference model on a GPU model on which hardly any pair was measured."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from data.errors import SettingError
from features.profiles import profiles
from pipelines.interference.calibration import calibrated_bundle
from pipelines.interference.few_pairs import averaged, measured_positions
from pipelines.interference.fit import ForestOptions, InterferenceData
from pipelines.interference.training_rows import known_runs, training_data
from pipelines.judged import worst_coverage
from pipelines.labelling.audit import audited
from pipelines.labelling.audit_rules import AuditRules
from pipelines.metrics import estimate_metrics, r2
from pipelines.splits import Fold
from serving.inference.interference import (
    NEW_FAMILY,
    NEW_GPU_MODEL,
    NEW_PAIR,
    slowdown_estimates,
)

DRAWS = 2  # of the measured pairs; each is a training of its own


def gpu_model_rows(
    runs: pd.DataFrame, measured: Sequence[int], seed: int, options: ForestOptions | None = None
) -> list[dict[str, object]]:
    """Return one flat row for each GPU model and number of pairs measured there.

    Parameters
    ----------
    runs : DataFrame, ``data.schemas.PROFILING_RUNS``
        Colocated ones on two GPU models or more. Jobs were profiled on each of them. The audit
        of all of them says which rows are asked about; what is learnt from, an audit of that.
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
    labels = audited(runs).labels.reset_index(drop=True)
    names = sorted(set(labels["gpu_model"].astype(str)))
    if len(names) < 2:
        raise SettingError(f"found labels of {len(names)} GPU model, wanted two or more")
    options = options or ForestOptions()
    rows = []
    for name in names:
        for k in measured:
            draws = list(_draws(runs, labels, name, k, seed, options))
            split = f"gpu_model/{name}" + (f"_k{k}" if k else "")
            rows.append({"split": split, **averaged(draws), "k": k})
    return rows


def _draws(  # noqa: PLR0913, PLR0917 - what is asked, and how
    runs: pd.DataFrame,
    labels: pd.DataFrame,
    name: str,
    k: int,
    seed: int,
    options: ForestOptions,
) -> Iterator[dict[str, object]]:
    for asked, learnt in gpu_model_worlds(runs, labels, name, k, seed):
        bundle, _ = calibrated_bundle(learnt, options, seed, (NEW_PAIR, NEW_FAMILY))
        others = learnt.labels[learnt.labels["gpu_model"] != name]
        yield _scores(asked, slowdown_estimates(bundle, asked), others)


def gpu_model_worlds(
    runs: pd.DataFrame, labels: pd.DataFrame, name: str, k: int, seed: int
) -> Iterator[tuple[pd.DataFrame, InterferenceData]]:
    """Yield, for each draw of measured pairs, what is asked about and what is learnt from.

    Parameters
    ----------
    runs : DataFrame, ``data.schemas.PROFILING_RUNS``
    labels : DataFrame, ``data.schemas.LABELS``
        Of `runs`: what may be asked about.
    name : str
        The new GPU model.
    k : int
        Pairs of each job that are measured there.
    seed : int
    """
    is_new = (labels["gpu_model"] == name).to_numpy()
    fold = Fold(name, np.flatnonzero(~is_new), np.flatnonzero(is_new))
    known = known_runs(runs, labels, NEW_GPU_MODEL, fold)
    for draw in range(DRAWS if k else 1):
        shown = measured_positions(labels, fold, k, np.random.default_rng(seed + draw))
        is_shown = runs["run_id"].isin(labels["run_id"].iloc[shown])
        together = runs[runs["run_id"].isin(known["run_id"]) | is_shown]
        learnt = training_data(together, profiles(runs), AuditRules(), seed)
        # The lowest slowdown that is learnt from is the floor.
        yield labels.iloc[np.setdiff1d(fold.test, shown)], replace(learnt, floor=1.0)


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
