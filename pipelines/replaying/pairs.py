"""Colocations that a replay made, by predicted and by true slowdown."""

from itertools import pairwise

import numpy as np
import pandas as pd

from pipelines.replaying.run import Replay

EDGES = (1.0, 1.05, 1.1, 1.2, 1.5, np.inf)
"""Edges of the bands in which slowdowns are counted."""


def placed_pairs(events: pd.DataFrame, replay: Replay) -> pd.DataFrame:
    """Return what was predicted of every colocation, and what was true.

    Predicted is what the model said before anything ran, also where the policy had measured the
    pair by then.

    Parameters
    ----------
    events : DataFrame
        As ``colocast replay --events`` writes it.
    replay : Replay
        Whose beliefs are the predictions.

    Returns
    -------
    DataFrame of shape (n, 2)
        ``predicted`` and ``true`` slowdown (>= 1) of the job that was placed beside another, one
        row for each card.
    """
    starts = events[(events["event"] == "start") & (events["neighbour"] != "")]
    workload = pd.Series(replay.trace.workload, index=list(replay.trace.job_ids))
    job = workload.loc[starts["job_id"]].to_numpy()
    neighbour = workload.loc[starts["neighbour"]].to_numpy()
    predicted = replay.beliefs.value[job, neighbour]
    return pd.DataFrame({"predicted": predicted, "true": starts["slowdown"].to_numpy()})


def banded(pairs: pd.DataFrame) -> pd.DataFrame:
    """Return how many colocations fell into each band of predicted (rows) and true slowdown.

    Examples
    --------
    >>> counts = banded(pd.DataFrame({"predicted": [1.0, 1.3], "true": [1.07, 1.6]}))
    >>> int(counts.loc["1 to 1.05", "1.05 to 1.1"]), int(counts.loc["1.2 to 1.5", "above 1.5"])
    (1, 1)
    """
    labels = [f"{low:g} to {high:g}" for low, high in pairwise(EDGES)]
    labels[-1] = f"above {EDGES[-2]:g}"
    cut = {
        name: pd.cut(pairs[name], list(EDGES), labels=labels, include_lowest=True)
        for name in ("predicted", "true")
    }
    return pd.crosstab(cut["predicted"], cut["true"], dropna=False)
