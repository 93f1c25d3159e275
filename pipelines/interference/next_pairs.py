"""Which pairs to measure next: those of which least is known, beside what a measurement tells."""

from dataclasses import dataclass
from itertools import combinations_with_replacement

import numpy as np
import pandas as pd

from data.errors import SettingError
from features.effect_jobs import Floats, effect_jobs, stand
from features.effect_kernel import COMPONENT_NAMES, EffectKernel, EffectRows, Positions
from features.effect_tables import effects_from
from features.effects import Effects, effect_covariance, effect_estimates, effects
from pipelines.labelling.label_effects import label_effects, unordered
from serving.inference.interference_rows import effect_rows

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
    Greedy D-optimal design for a Gaussian process, both directions of a pair at once: the entropy
    criterion of Krause, Singh and Guestrin, "Near-optimal sensor placements in Gaussian
    processes", JMLR 2008. To lower the sum of the variances instead (A-optimal) trusts how
    effects are shared more than can be learnt from few pairs: see ``docs/results.md``.
    """
    if count < 1:
        raise SettingError(f"the number of pairs must be at least 1, got {count}")
    open_pairs = _open_pairs(labels, profiles, candidates, seed)
    if open_pairs.empty:
        return open_pairs.assign(error_share=pd.Series(dtype="float64"))
    design = _design(_learnt(labels, profiles, seed), open_pairs, profiles)
    first, total = [], design.error()
    for _ in range(min(count, len(open_pairs))):
        best = design.best()
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


def _learnt(labels: pd.DataFrame, profiles: pd.DataFrame, seed: int) -> Effects:
    if len(labels) >= MIN_LABELS:
        return effects_from(label_effects(labels, profiles, seed).tables)[0]
    if len(labels):
        return effects_from(label_effects(labels, profiles, seed, ASSUMED).tables)[0]
    nobody = effect_jobs(profiles.iloc[:0], stand(profiles))
    none = np.empty(0, dtype=np.intp)
    return effects(ASSUMED, ASSUMED_MEAN, EffectRows(nobody, none, none), np.empty(0), np.empty(0))


@dataclass(slots=True)
class _Design:
    """What is left unknown of both directions of each open pair, while pairs are chosen."""

    covariance: Floats  # of the first directions, then of the second ones
    noise: Floats
    weight: Floats  # from log slowdowns to slowdowns
    is_left: Positions

    def error(self) -> float:
        """Return the expected squared error, summed over both directions of all pairs."""
        return float(np.diag(self.covariance) @ self.weight)

    def best(self) -> int:
        """Return the position of the pair whose measurement tells most."""
        n = len(self.is_left)
        known = np.diag(self.covariance) / self.noise
        shared = np.diag(self.covariance, n) ** 2 / (self.noise[:n] * self.noise[n:])
        information = (1 + known[:n]) * (1 + known[n:]) - shared
        return int(np.argmax(np.where(self.is_left, information, -np.inf)))

    def measure(self, at: int) -> None:
        """Take both directions of a pair as measured."""
        for row in (at, at + len(self.is_left)):
            column = self.covariance[:, row]
            self.covariance -= np.outer(column, column) / (column[row] + self.noise[row])
        self.is_left[at] = 0


def _design(learnt: Effects, open_pairs: pd.DataFrame, profiles: pd.DataFrame) -> _Design:
    swapped = open_pairs.set_axis([PAIR[1], PAIR[0], PAIR[2]], axis="columns")[PAIR]
    rows = effect_rows(profiles, pd.concat([open_pairs, swapped]), stand(profiles))
    return _Design(
        effect_covariance(learnt, rows),
        learnt.kernel.noise_variance(rows),
        np.exp(2 * effect_estimates(learnt, rows)),
        np.ones(len(open_pairs), dtype=np.intp),
    )
