"""Which pairs to measure next: those of which least is known, beside what a measurement tells."""

from itertools import combinations_with_replacement

import numpy as np
import pandas as pd

from data.errors import SettingError
from features.effect_jobs import effect_jobs, stand
from features.effect_kernel import COMPONENT_NAMES, EffectKernel, EffectRows
from features.effect_tables import effects_from
from features.effects import Effects, effects
from pipelines.interference.pair_design import Order, effect_information, pair_design
from pipelines.labelling.label_effects import label_effects, unordered

MIN_LABELS = 20  # below, how effects are shared cannot be learnt, and is assumed
MOST_CANDIDATES = 1500  # pairs; more are thinned at random
ASSUMED = EffectKernel(
    np.full(len(COMPONENT_NAMES), 0.01), transfer=0.5, noise=0.003, idle_noise=0.003
)
ASSUMED_MEAN = 0.2
PAIR = ["job_key", "neighbour_key", "gpu_model"]


def next_pairs(
    labels: pd.DataFrame,
    profiles: pd.DataFrame,
    count: int,
    seed: int,
    candidates: pd.DataFrame | None = None,
) -> pd.DataFrame:
    """Return the pairs that teach most, the first one first.

    Parameters
    ----------
    labels : DataFrame, ``data.schemas.LABELS``
        What was measured so far; may be empty.
    profiles : DataFrame, ``data.schemas.PROFILES``
        Of every job in `labels` and of those to be measured.
    count : int
        How many pairs (>= 1); fewer are returned where fewer are left.
    seed : int
    candidates : DataFrame, optional
        ``job_key``, ``neighbour_key`` and ``gpu_model``; without, all pairs of jobs that have a
        profile on the same GPU model, a job with itself among them. Pairs with a label in
        either direction are left out.

    Returns
    -------
    DataFrame of shape (<= count, 4)
        ``job_key``, ``neighbour_key``, ``gpu_model`` and ``error_share``: the part of the
        expected squared error of all candidates' slowdowns that is left once this pair and those
        before it are measured, in [0, 1].

    Raises
    ------
    SettingError
        If `count` is below 1.

    Notes
    -----
    Greedy, each pair given those before it, by `effect_information`; other orders are compared with
    it in ``benchmarks.quality_next``.
    """
    if count < 1:
        raise SettingError(f"the number of pairs must be at least 1, got {count}")
    open_pairs = _open_pairs(labels, profiles, candidates, seed)
    if open_pairs.empty:
        return open_pairs.assign(error_share=pd.Series(dtype="float64"))
    return best_pairs(learnt_effects(labels, profiles, seed), profiles, open_pairs, count)


def best_pairs(
    learnt: Effects,
    profiles: pd.DataFrame,
    open_pairs: pd.DataFrame,
    count: int,
    order: Order = effect_information,
) -> pd.DataFrame:
    """Return the open pairs that come first, given what was learnt so far.

    Parameters
    ----------
    learnt : Effects
    profiles : DataFrame, ``data.schemas.PROFILES``
    open_pairs : DataFrame of shape (>= 1, 3)
        ``job_key``, ``neighbour_key`` and ``gpu_model``, each pair once in either direction.
    count : int
    order : Order

    Returns
    -------
    DataFrame of shape (<= count, 4), as `next_pairs`
    """
    design = pair_design(learnt, open_pairs, profiles)
    first, total = [], design.error()
    for _ in range(min(count, len(open_pairs))):
        best = design.best(order)
        design.measure(best)
        first.append((best, design.error() / total))
    chosen = open_pairs.iloc[[at for at, _ in first]].reset_index(drop=True)
    return chosen.assign(error_share=[float(left) for _, left in first])


def _open_pairs(
    labels: pd.DataFrame, profiles: pd.DataFrame, candidates: pd.DataFrame | None, seed: int
) -> pd.DataFrame:
    found = _all_pairs(profiles) if candidates is None else candidates[PAIR]
    found = found[~pd.Series(unordered(found), index=found.index).duplicated()]
    both = pd.concat([labels[PAIR], found], ignore_index=True)
    number = unordered(both)
    is_open = ~np.isin(number[len(labels) :], number[: len(labels)])
    found = found.loc[is_open].reset_index(drop=True)
    if len(found) > MOST_CANDIDATES:
        found = found.sample(MOST_CANDIDATES, random_state=seed).sort_index()
    return found.reset_index(drop=True)


def _all_pairs(profiles: pd.DataFrame) -> pd.DataFrame:
    rows = [
        (*pair, gpu_model)
        for gpu_model, group in profiles.groupby("gpu_model")
        for pair in combinations_with_replacement(sorted(group["job_key"].astype(str)), 2)
    ]
    return pd.DataFrame(rows, columns=PAIR)


def learnt_effects(labels: pd.DataFrame, profiles: pd.DataFrame, seed: int) -> Effects:
    """Return what the labels tell; how effects are shared is assumed where they are few.

    Parameters
    ----------
    labels : DataFrame, ``data.schemas.LABELS``
        May be empty.
    profiles : DataFrame, ``data.schemas.PROFILES``
    seed : int
    """
    if len(labels) >= MIN_LABELS:
        return effects_from(label_effects(labels, profiles, seed).tables)[0]
    if len(labels):
        return effects_from(label_effects(labels, profiles, seed, ASSUMED).tables)[0]
    nobody = effect_jobs(profiles.iloc[:0], stand(profiles))
    none = np.empty(0, dtype=np.intp)
    return effects(ASSUMED, ASSUMED_MEAN, EffectRows(nobody, none, none), np.empty(0), np.empty(0))
