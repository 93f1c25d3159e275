"""What slowdown estimates must beat: answers that need no model."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from features.pairs import pair_features
from pipelines.interference.fit import InterferenceData
from pipelines.splits import Fold

BUSY_SUM = "gpu_util_sum"


def baseline_estimates(data: InterferenceData, folds: Sequence[Fold]) -> pd.DataFrame:
    """Return trivial answers for the held-out rows, each from that fold's training rows.

    Parameters
    ----------
    data : InterferenceData
    folds : sequence of Fold

    Returns
    -------
    DataFrame, indexed by position in ``data.labels``, slowdowns
        ``constant``: the mean of all; ``neighbour``: of all jobs beside that neighbour;
        ``job``: of that job beside all; ``busy_sum``: the sum of both GPU utilisations where it
        exceeds 1. Where a group is unknown, the mean of all.

    Examples
    --------
    >>> labels = pd.DataFrame({"job_key": ["a", "a", "b"], "neighbour_key": ["b", "c", "c"],
    ...     "gpu_model": "v100", "slowdown": [1.0, 2.0, 3.0]})
    >>> profiles = pd.DataFrame({"job_key": ["a", "b", "c"], "gpu_model": "v100",
    ...     "gpu_util_mean": [0.5, 0.5, 0.9]})
    >>> fold = Fold("", np.array([0, 1]), np.array([2]))
    >>> baseline_estimates(InterferenceData(labels, profiles, 1.0), [fold]).round(2)
       constant  neighbour  job  busy_sum
    2       1.5        2.0  1.5       1.4
    """
    labels = data.labels
    parts = [
        trivial_answers(data.of_rows(fold.train), labels.iloc[fold.test]).set_axis(fold.test)
        for fold in folds
    ]
    return pd.concat(parts).sort_index()


def trivial_answers(learnt: InterferenceData, test: pd.DataFrame) -> pd.DataFrame:
    """Return the answers of `baseline_estimates` for some rows, from what was learnt.

    Parameters
    ----------
    learnt : InterferenceData
    test : DataFrame, ``data.schemas.LABELS``
        The result has its index.
    """
    train = learnt.labels
    constant = float(train["slowdown"].mean())
    busy = pair_features(learnt.profiles, test)[BUSY_SUM].clip(lower=1.0)
    columns = {
        "constant": np.full(len(test), constant),
        "neighbour": _group_means(train, test, "neighbour_key").fillna(constant),
        "job": _group_means(train, test, "job_key").fillna(constant),
        "busy_sum": busy.fillna(constant),
    }
    return pd.DataFrame(columns, index=test.index)


def _group_means(train: pd.DataFrame, test: pd.DataFrame, key: str) -> pd.Series:
    return test[key].map(train.groupby(key)["slowdown"].mean())
