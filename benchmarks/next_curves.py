"""How R² grows while pairs are measured in some order, on pairs that never are."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from features.effect_tables import effects_from
from features.effects import Effects, effect_estimates
from features.profiles import profiles
from pipelines.interference.next_pairs import best_pairs
from pipelines.interference.pair_design import Order
from pipelines.labelling.audit import audited
from pipelines.labelling.label_effects import PAIR, label_effects, unordered
from pipelines.metrics import r2
from pipelines.split_groups import pair_names
from serving.inference.interference_rows import effect_rows

SEED = 7
START, STEP, STEPS = 20, 30, 10  # pairs measured first, at random; then at a time; how often
FIFTH = 5


@dataclass(frozen=True, slots=True)
class Trial:
    """Pairs of which a fifth is never measured, and asked about.

    Attributes
    ----------
    runs : DataFrame, ``data.schemas.PROFILING_RUNS``
    labels : DataFrame, ``data.schemas.LABELS``
        Of all pairs that are measured or asked about; an audit of all of them says which stand.
    pair : intp array of shape (n_labels,)
        Number of each label's pair.
    test, pool : intp arrays
        Numbers of the pairs that are asked about, and of those that may be measured, at random.
    """

    runs: pd.DataFrame
    labels: pd.DataFrame
    pair: NDArray[np.intp]
    test: NDArray[np.intp]
    pool: NDArray[np.intp]

    def of(self, numbers: Sequence[int] | NDArray[np.intp]) -> pd.DataFrame:
        """Return the labels of some pairs."""
        return self.labels[np.isin(self.pair, numbers)]

    def pairs(self, numbers: Sequence[int] | NDArray[np.intp]) -> pd.DataFrame:
        """Return some pairs, each once."""
        labels = self.of(numbers)
        return labels.loc[~pd.Series(unordered(labels), labels.index).duplicated(), PAIR]

    def numbers(self, pairs: pd.DataFrame) -> list[int]:
        """Return the numbers of some pairs, in either direction."""
        both = unordered(pd.concat([self.labels[PAIR], pairs[PAIR]], ignore_index=True))
        names = {int(new): int(old) for new, old in zip(both, self.pair, strict=False)}
        return [names[int(at)] for at in both[len(self.labels) :]]


def outer_trial(runs: pd.DataFrame, draw: int) -> Trial:
    """Return a trial on all pairs, which is reported."""
    return _trial(runs, audited(runs).labels, [SEED + draw])


def inner_trial(outer: Trial, draw: int, inner: int) -> Trial:
    """Return a trial on the pairs that `outer` may measure: what it asks about is unknown."""
    known = measured_so_far(outer.runs, outer.of(outer.pool)).reset_index(drop=True)
    return _trial(outer.runs, known, [SEED, draw, inner])


def _trial(runs: pd.DataFrame, labels: pd.DataFrame, seed: list[int]) -> Trial:
    pair = unordered(labels)
    generator = np.random.default_rng(seed[0] if len(seed) == 1 else seed)
    order = generator.permutation(pair.max() + 1)
    fifth = len(order) // FIFTH
    return Trial(runs, labels, pair, order[:fifth], order[fifth:])


def curve(trial: Trial, order: Order | None, steps: int) -> list[float]:
    """Return R² after ``START`` pairs, and after each of `steps` times ``STEP`` more.

    Parameters
    ----------
    trial : Trial
    order : Order, optional
        At random without.
    steps : int

    Returns
    -------
    list of float, length ``steps + 1``
    """
    table, measured, scores = profiles(trial.runs), list(trial.pool[:START]), []
    for step in range(steps + 1):
        learnt, score = learnt_and_score(trial, measured, table)
        scores.append(score)
        if order is None:
            measured = list(trial.pool[: START + STEP * (step + 1)])
        elif step < steps:
            left = trial.pairs(trial.pool[~np.isin(trial.pool, measured)])
            measured += trial.numbers(best_pairs(learnt, table, left, STEP, order))
    return scores


def learnt_and_score(
    trial: Trial, measured: Sequence[int] | NDArray[np.intp], table: pd.DataFrame
) -> tuple[Effects, float]:
    """Return what some pairs teach, and the R² of what is asked about.

    Parameters
    ----------
    trial : Trial
    measured : sequence of int
        Numbers of pairs; what stands is said by an audit of these alone.
    table : DataFrame, ``data.schemas.PROFILES``
    """
    known, test = measured_so_far(trial.runs, trial.of(measured)), trial.of(trial.test)
    learnt, missing = effects_from(label_effects(known, table, SEED).tables)
    value = np.exp(effect_estimates(learnt, effect_rows(table, test, missing)))
    score = r2(test["slowdown"].to_numpy(np.float64), value)
    return learnt, float("nan") if score is None else score


def measured_so_far(runs: pd.DataFrame, labels: pd.DataFrame) -> pd.DataFrame:
    """Return the labels that stand once some pairs are measured, and no others.

    Parameters
    ----------
    runs : DataFrame, ``data.schemas.PROFILING_RUNS``
    labels : DataFrame, ``data.schemas.LABELS``
        Of the pairs that were measured; both sides of each are.
    """
    sides = "job_key", "neighbour_key", "gpu_model"
    beside = runs["neighbour_key"].notna()
    is_measured = pair_names(runs[beside], *sides).isin(pair_names(labels, *sides)).to_numpy()
    return audited(runs.drop(index=runs.index[beside][~is_measured])).labels
