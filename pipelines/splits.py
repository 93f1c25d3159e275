"""Which rows are learnt from and which are held out; a random split over rows does not exist."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from data.errors import SettingError
from pipelines.split_groups import pair_names

Positions = NDArray[np.intp]
SIZE_FIFTHS = 5


@dataclass(frozen=True, slots=True)
class Fold:
    """Positions of the rows to learn from and of those held out.

    Attributes
    ----------
    name : str
        What was held out.
    train, test : array of intp
        Row positions, ascending; no row is in both.
    """

    name: str
    train: Positions
    test: Positions


def pair_folds(labels: pd.DataFrame, folds: int, seed: int) -> list[Fold]:
    """Hold out unordered pairs: both directions and all repeats of a pair are in one fold.

    Parameters
    ----------
    labels : DataFrame
        ``job_key``, ``neighbour_key`` and ``gpu_model``.
    folds : int
        At least 2; fewer are made where there are fewer pairs.
    seed : int

    Raises
    ------
    SettingError
        If there is only one pair.
    """
    return _group_folds(pair_names(labels, "job_key", "neighbour_key", "gpu_model"), folds, seed)


def family_pair_folds(labels: pd.DataFrame, folds: int, seed: int) -> list[Fold]:
    """Hold out unordered pairs of families: each was learnt from, but not beside the other.

    Parameters
    ----------
    labels : DataFrame
        ``family`` and ``neighbour_family``.
    folds : int
    seed : int

    Raises
    ------
    SettingError
        If there is only one pair of families.
    """
    return _group_folds(pair_names(labels, "family", "neighbour_family"), folds, seed)


def configuration_folds(labels: pd.DataFrame, folds: int, seed: int) -> list[Fold]:
    """Hold out job keys on both sides: tested as the slowed job, unseen even as a neighbour.

    Parameters, Raises
        As `pair_folds`.
    """
    return _two_sided_folds(labels["job_key"], labels["neighbour_key"], folds, seed)


def family_folds(labels: pd.DataFrame, folds: int, seed: int) -> list[Fold]:
    """Hold out model families on both sides, as `configuration_folds` does job keys.

    Parameters
    ----------
    labels : DataFrame
        ``family`` and ``neighbour_family``.
    folds : int
        With as many as there are families each is held out alone.
    seed : int

    Raises
    ------
    SettingError
        If there is only one family.
    """
    return _two_sided_folds(labels["family"], labels["neighbour_family"], folds, seed)


def gpu_model_folds(labels: pd.DataFrame, folds: int, seed: int) -> list[Fold]:
    """Hold out GPU models.

    Parameters
    ----------
    labels : DataFrame
        ``gpu_model``.
    folds : int
    seed : int

    Raises
    ------
    SettingError
        If there is only one GPU model.
    """
    return _group_folds(labels["gpu_model"].reset_index(drop=True), folds, seed)


def memory_family_folds(memory_runs: pd.DataFrame, folds: int, seed: int) -> list[Fold]:
    """Hold out families, such as all convolutional networks.

    Parameters
    ----------
    memory_runs : DataFrame
        ``family``.
    """
    return _group_folds(memory_runs["family"], folds, seed)


def memory_configuration_folds(memory_runs: pd.DataFrame, folds: int, seed: int) -> list[Fold]:
    """Hold out configurations: repeats of one are in one fold.

    Parameters
    ----------
    memory_runs : DataFrame
        ``configuration``.
    """
    return _group_folds(memory_runs["configuration"], folds, seed)


def extrapolation_folds(memory_runs: pd.DataFrame) -> list[Fold]:
    """Hold out each fifth of model sizes in turn, the smallest to the largest.

    Parameters
    ----------
    memory_runs : DataFrame
        ``dataset`` (fifths are of each data set), ``framework``, ``configuration`` and what
        `model_sizes` reads.

    Returns
    -------
    list of Fold
        Named ``fifth 1`` (smallest) to ``fifth 5``. Configurations of equal size stay together.
    """
    sizes = model_sizes(memory_runs)
    series = memory_runs["dataset"].astype("str") + memory_runs["framework"].str.split("/").str[0]
    ranks = sizes.groupby(series.to_numpy()).rank(method="average", pct=True)
    fifth = np.minimum((ranks * SIZE_FIFTHS).to_numpy().astype(np.int64), SIZE_FIFTHS - 1)
    return _folds(fifth, [f"fifth {at + 1}" for at in range(SIZE_FIFTHS)])


def model_sizes(memory_runs: pd.DataFrame) -> pd.Series:
    """Return the number of weights of each model as far as known, or else its batch size.

    Examples
    --------
    >>> runs = pd.DataFrame({"embedding_rows": [10.0, np.nan], "embedding_width": [4.0, np.nan],
    ...     "dense_parameters": [np.nan, np.nan], "batch_size": [8.0, 64.0]})
    >>> model_sizes(runs).tolist()
    [40.0, 64.0]
    """
    embedding = memory_runs["embedding_rows"] * memory_runs["embedding_width"]
    parts = pd.concat([embedding, memory_runs["dense_parameters"]], axis="columns")
    weights = parts.sum(axis="columns", min_count=1)
    return weights.fillna(memory_runs["batch_size"])


def finish_time_fold(jobs: pd.DataFrame, moment: float) -> Fold:
    """Learn from what had finished by `moment`, test on what was submitted from then on.

    Parameters
    ----------
    jobs : DataFrame
        ``submit_time`` and ``finish_time`` (s since 1970, UTC).
    moment : float
        Seconds since 1970, UTC. A job that ran across it is in neither part: its runtime was
        not known then.

    Examples
    --------
    >>> jobs = pd.DataFrame({"submit_time": [0.0, 5.0, 10.0], "finish_time": [9.0, 15.0, 20.0]})
    >>> fold = finish_time_fold(jobs, 10.0)
    >>> fold.train.tolist(), fold.test.tolist()
    ([0], [2])
    """
    train = np.flatnonzero((jobs["finish_time"] < moment).to_numpy())
    test = np.flatnonzero((jobs["submit_time"] >= moment).to_numpy())
    return Fold(f"finished before {moment:.0f}", train, test)


INTERFERENCE_SPLITS: dict[str, Callable[[pd.DataFrame, int, int], list[Fold]]] = {
    "pair": pair_folds,
    "family_pair": family_pair_folds,
    "configuration": configuration_folds,
    "family": family_folds,
    "gpu_model": gpu_model_folds,
}
"""By name, from the easiest to the one that a new user's model is, and what a new card is."""


def _group_folds(groups: pd.Series, folds: int, seed: int) -> list[Fold]:
    codes = _shuffled_folds(groups, groups, folds, seed)
    return _folds(codes, [str(at) for at in range(codes.max() + 1)])


def _two_sided_folds(job: pd.Series, neighbour: pd.Series, folds: int, seed: int) -> list[Fold]:
    everyone = pd.concat([job, neighbour], ignore_index=True)
    codes = _shuffled_folds(everyone, everyone, folds, seed)
    of_job, of_neighbour = codes[: len(job)], codes[len(job) :]
    return [
        Fold(
            _held_out(job, of_job == at),
            np.flatnonzero((of_job != at) & (of_neighbour != at)),
            np.flatnonzero(of_job == at),
        )
        for at in range(codes.max() + 1)
        if (of_job == at).any()
    ]


def _shuffled_folds(groups: pd.Series, values: pd.Series, folds: int, seed: int) -> Positions:
    names = np.unique(groups.to_numpy(dtype=str))
    if len(names) < 2:
        raise SettingError(f"found {len(names)} group to hold out, wanted at least 2")
    order = np.random.default_rng(seed).permutation(len(names))
    fold_of = dict(zip(names, order % min(folds, len(names)), strict=True))
    return values.astype("str").map(fold_of).to_numpy(np.intp)


def _folds(codes: NDArray[np.int64], names: Sequence[str]) -> list[Fold]:
    parts = [
        Fold(n, np.flatnonzero(codes != at), np.flatnonzero(codes == at))
        for at, n in enumerate(names)
    ]
    return [part for part in parts if len(part.train) and len(part.test)]


def _held_out(names: pd.Series, rows: NDArray[np.bool_]) -> str:
    return ", ".join(sorted(set(names[rows].astype("str"))))
