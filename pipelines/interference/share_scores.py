"""How well a job's sharing class (0 harmless, 1, 2 harmful) is told before and after pairs.

The classes are Lucid's "sharing score": Hu et al., "Lucid", ASPLOS 2023.
"""

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestClassifier

from features.effect_jobs import Floats, effect_jobs, stand
from features.effect_kernel import EffectRows
from features.effect_tables import effects_from
from features.effects import effect_estimates
from pipelines.labelling.label_effects import label_effects

TREES = 300
MEMORY = "gpu_mem_mib_mean"


def share_answers(
    shares: pd.DataFrame, profiles: pd.DataFrame, labels: pd.DataFrame | None, seed: int
) -> NDArray[np.intp]:
    """Return the class of each job, told by a forest that knows no job of its family.

    Parameters
    ----------
    shares : DataFrame, ``data.schemas.SHARE_LABELS``
    profiles : DataFrame, ``data.schemas.PROFILES``
        Of every job in `shares`.
    labels : DataFrame, ``data.schemas.LABELS``, optional
        Measured pairs, the jobs' own among them: then what effects say of each job beside itself,
        and on average as the slowed job and as the neighbour, are inputs too.
    seed : int

    Returns
    -------
    intp array of shape (n_shares,)
        Compare with ``share_label``.
    """
    keys = ["job_key", "gpu_model"]
    table = shares.merge(profiles, on=keys, how="left", validate="one_to_one")
    inputs = _profile_inputs(table)
    if labels is not None:
        inputs = np.column_stack([inputs, _effect_inputs(table, profiles, labels, seed)])
    family = table["family"].to_numpy(dtype=str)
    classes = table["share_label"].to_numpy(np.intp)
    answers = np.zeros_like(classes)
    for name in np.unique(family):
        new = family == name
        forest = RandomForestClassifier(TREES, min_samples_leaf=2, random_state=seed)
        answers[new] = forest.fit(inputs[~new], classes[~new]).predict(inputs[new])
    return answers


def commonest_classes(shares: pd.DataFrame, profiles: pd.DataFrame) -> NDArray[np.intp]:
    """Return what is answered without any model: the commonest class of all other families.

    Parameters
    ----------
    shares : DataFrame, ``data.schemas.SHARE_LABELS``
        Of two families at least.
    profiles : DataFrame, ``data.schemas.PROFILES``
        Of every job in `shares`.

    Examples
    --------
    >>> keys = pd.DataFrame({"job_key": list("stuvw"), "gpu_model": "v100"})
    >>> shares = keys.assign(share_label=[0.0, 0.0, 1.0, 1.0, 2.0])
    >>> commonest_classes(shares, keys.assign(family=list("aabbb"))).tolist()
    [1, 1, 0, 0, 0]
    """
    keys = ["job_key", "gpu_model"]
    family = shares[keys].merge(profiles, on=keys, how="left", validate="one_to_one")["family"]
    classes = shares["share_label"].astype("int64").set_axis(family.index)
    answers = {name: classes[family != name].mode().iloc[0] for name in family.unique()}
    return family.map(answers).to_numpy(np.intp)


def _profile_inputs(table: pd.DataFrame) -> Floats:
    jobs = effect_jobs(table, stand(table))
    memory = np.log2(table.reindex(columns=[MEMORY])[MEMORY].fillna(1.0).clip(lower=1.0))
    return np.column_stack([jobs.busy, jobs.dram, memory, jobs.log2_batch])


def _effect_inputs(
    table: pd.DataFrame, profiles: pd.DataFrame, labels: pd.DataFrame, seed: int
) -> Floats:
    learnt, missing = effects_from(label_effects(labels, profiles, seed).tables)
    jobs = effect_jobs(table, missing)
    n = len(table)
    job, neighbour = (each.ravel() for each in np.meshgrid(np.arange(n), np.arange(n)))
    grid = effect_estimates(learnt, EffectRows(jobs, job, neighbour)).reshape(n, n)
    return np.column_stack([np.diag(grid), grid.mean(axis=0), grid.mean(axis=1)])
