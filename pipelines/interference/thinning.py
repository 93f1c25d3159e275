"""Fewer labels where there are more than a training can take: some of every job's pairs."""

import numpy as np
import pandas as pd

from pipelines.labelling.label_effects import unordered

MOST_LABELS = 4_000
"""Effects solve for all pairs at once, in cubic time, and every answer reads them all."""


def thinned(labels: pd.DataFrame, seed: int, most: int = MOST_LABELS) -> pd.DataFrame:
    """Return about `most` labels, or all where they are no more, in their order.

    A pair is kept with both directions and all repeats, or left out. Pairs are drawn at random,
    each job's first pair before any job's second: so what is rare is kept whole, and what was
    measured with everybody is thinned.

    Parameters
    ----------
    labels : DataFrame, ``data.schemas.LABELS``
    seed : int
    most : int
        Pairs are kept until these many rows are reached or passed.

    Examples
    --------
    >>> labels = pd.DataFrame({"job_key": ["a", "b", "a", "a", "a"], "gpu_model": "v100",
    ...     "neighbour_key": ["b", "a", "c", "d", "d"]})
    >>> thinned(labels, seed=0, most=3)["neighbour_key"].tolist()
    ['c', 'd', 'd']
    """
    if len(labels) <= most:
        return labels
    pair = unordered(labels)
    sides = pd.DataFrame({"pair": np.tile(pair, 2)})
    sides["key"] = pd.concat([labels["job_key"], labels["neighbour_key"]]).to_numpy(dtype=str)
    sides["gpu_model"] = np.tile(labels["gpu_model"].to_numpy(dtype=str), 2)
    sides["drawn"] = np.random.default_rng(seed).permutation(int(pair.max()) + 1)[sides["pair"]]
    once = sides.drop_duplicates(["key", "gpu_model", "pair"])
    turn = once.groupby(["key", "gpu_model"])["drawn"].rank(method="first")
    order = once.assign(turn=turn).groupby("pair")[["turn", "drawn"]].min()
    order = order.sort_values(["turn", "drawn"], kind="stable")
    rows = pd.Series(pair).groupby(pair).size().loc[order.index].cumsum()
    kept = rows.index[: int(np.searchsorted(rows.to_numpy(), most)) + 1]
    return labels[np.isin(pair, kept)]
