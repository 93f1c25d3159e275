"""What a few measured pairs of a new job are worth."""

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import pandas as pd

from pipelines.labelling.label_effects import unordered
from pipelines.splits import Fold, Positions
from serving.inference.bundle import Bundle
from serving.inference.interference import slowdown_estimates
from serving.live.adaptation import adapted_bundle

Standing = Callable[[pd.DataFrame], pd.DataFrame]
"""From measured labels to those that may teach."""

SEEDS = 5  # draws of the measured pairs; their metrics are averaged


def measured_positions(
    labels: pd.DataFrame, fold: Fold, pairs: int, rng: np.random.Generator
) -> Positions:
    """Return rows that become known when each held-out job is measured beside a few others.

    Parameters
    ----------
    labels : DataFrame, ``data.schemas.LABELS``
    fold : Fold
        Of `labels`. Jobs slowed in its test rows are new.
    pairs : int
        To measure of each new job on each GPU model, drawn at random from all its pairs that
        were not learnt from; fewer where it has fewer.
    rng : Generator

    Returns
    -------
    intp array, ascending
        Both directions of every drawn pair, wherever the labels hold them.
    """
    pair = unordered(labels)
    learnt = np.isin(np.arange(len(labels)), fold.train)
    drawn: set[int] = set()
    for key, gpu_model in sorted(set(_jobs(labels.iloc[fold.test]))):
        own = (labels[["job_key", "neighbour_key"]] == key).any(axis=1).to_numpy()
        own = own & ~learnt & (labels["gpu_model"] == gpu_model).to_numpy()
        drawn |= {int(at) for at in rng.permutation(np.unique(pair[own]))[:pairs]}
    return np.flatnonzero(np.isin(pair, list(drawn)) & ~learnt)


def all_stand(measured: pd.DataFrame) -> pd.DataFrame:
    """Return every measured label; where all were audited together."""
    return measured


def answers_after(  # noqa: PLR0913, PLR0917 - the last has a default
    bundle: Bundle,
    labels: pd.DataFrame,
    fold: Fold,
    pairs: int,
    seed: int,
    standing: Standing = all_stand,
) -> pd.DataFrame:
    """Return estimates of the held-out rows once a few pairs of each new job are measured.

    Parameters
    ----------
    bundle : Bundle
        Of what the fold learns from.
    labels : DataFrame, ``data.schemas.LABELS``
    fold : Fold
        Of `labels`.
    pairs : int
        As for `measured_positions`.
    seed : int
    standing : callable

    Returns
    -------
    DataFrame, indexed by position in `labels`
        As `slowdown_estimates`, and ``slowdown`` as measured; without the rows that were shown.
    """
    shown = measured_positions(labels, fold, pairs, np.random.default_rng(seed))
    rest = np.setdiff1d(fold.test, shown)
    if len(shown):
        bundle = adapted_bundle(bundle, standing(labels.iloc[shown]))
    asked = labels.iloc[rest]
    estimates = slowdown_estimates(bundle, asked)
    return estimates.assign(slowdown=asked["slowdown"]).set_axis(rest)


def averaged(rows: Sequence[Mapping[str, object]]) -> dict[str, object]:
    """Return one flat row for several draws: means of numbers, and the spread of R².

    Examples
    --------
    >>> averaged([{"split": "family", "r2": 0.7}, {"split": "family", "r2": 0.9}])
    {'split': 'family', 'r2': 0.8, 'draws': 2, 'r2_sd': 0.1}
    """
    frame = pd.DataFrame(list(rows))
    first = dict(rows[0])
    if len(rows) > 1:
        means = frame.select_dtypes("number").mean().round(10).items()
        first |= {str(name): float(mean) if np.isfinite(mean) else None for name, mean in means}
    spread = frame["r2"].astype("float64").std(ddof=0)
    return {**first, "draws": len(rows), "r2_sd": round(float(spread), 10)}


def _jobs(labels: pd.DataFrame) -> Iterator[tuple[str, str]]:
    return zip(labels["job_key"].astype(str), labels["gpu_model"].astype(str), strict=True)
