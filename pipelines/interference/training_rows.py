"""What a fold may learn from: the audit, too, sees nothing of what is held out.

Which rows stand depends on others: on the noise of all, which says how far below 1 a slowdown may
lie, and on the median of a job's rows, which says whether its baseline is wrong. An audit of all
runs would choose the training rows by what was measured of those that are asked about.
"""

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pipelines.interference.fit import InterferenceData
from pipelines.interference.thinning import thinned
from pipelines.labelling.audit import audited
from pipelines.labelling.audit_rules import AuditRules
from pipelines.labelling.labels import partial_labels
from pipelines.split_groups import SPLIT_GROUPS
from pipelines.splits import Fold


def of_held_out(
    split: str, labels: pd.DataFrame, fold: Fold, others: pd.DataFrame
) -> NDArray[np.bool_]:
    """Return which of other rows belong to what a fold of labels holds out.

    Parameters
    ----------
    split : str
        A key of ``SPLIT_GROUPS``.
    labels : DataFrame
        That the fold is of.
    fold : Fold
    others : DataFrame
        With the same columns; rows of `labels`, and any others.

    Returns
    -------
    bool array of shape (n_others,)
        Whether a row is of a pair, of families or on a GPU model that the fold holds out, or one
        of its jobs is.

    Examples
    --------
    >>> labels = pd.DataFrame({"family": ["f", "g", "g"], "neighbour_family": ["g", "f", "h"]})
    >>> fold = Fold("f", np.array([2]), np.array([0]))
    >>> of_held_out("family", labels, fold, labels).tolist()
    [True, True, False]
    """
    groups = SPLIT_GROUPS[split](labels)
    learnt = np.isin(np.arange(len(labels)), fold.train)
    held_out = np.setdiff1d(groups[~learnt], groups[learnt])
    return np.asarray(np.isin(SPLIT_GROUPS[split](others), held_out).any(axis=1))


def known_runs(runs: pd.DataFrame, labels: pd.DataFrame, split: str, fold: Fold) -> pd.DataFrame:
    """Return the runs that are known where a fold is held out: all but the colocated ones of it.

    Parameters
    ----------
    runs : DataFrame, ``data.schemas.PROFILING_RUNS``
    labels : DataFrame, ``data.schemas.LABELS``
        Of `runs`; those that the audit left out are held out with the others of their group.
    split : str
        A key of ``SPLIT_GROUPS``.
    fold : Fold
        Of `labels`.
    """
    colocated = partial_labels(runs)
    return runs.drop(index=colocated.index[of_held_out(split, labels, fold, colocated)])


def training_data(
    known: pd.DataFrame, table: pd.DataFrame, rules: AuditRules, seed: int
) -> InterferenceData:
    """Return the labels and the floor that an audit of the known runs alone gives.

    Parameters
    ----------
    known : DataFrame, ``data.schemas.PROFILING_RUNS``
        As `known_runs` gives.
    table : DataFrame, ``data.schemas.PROFILES``
        Of every job, held out or not: each was profiled alone.
    rules : AuditRules
    seed : int
        Of the thinning, where there are more labels than ``MOST_LABELS``.
    """
    audit = audited(known, rules)
    labels = thinned(audit.labels, seed).reset_index(drop=True)
    return InterferenceData(labels, table, audit.noise.floor)


def measured_labels(
    runs: pd.DataFrame, known: pd.DataFrame, shown: pd.DataFrame, rules: AuditRules
) -> pd.DataFrame:
    """Return those of some measured labels that stand beside the known runs.

    Parameters
    ----------
    runs : DataFrame, ``data.schemas.PROFILING_RUNS``
        All runs.
    known : DataFrame
        Those known before, as `known_runs` gives.
    shown : DataFrame, ``data.schemas.LABELS``
        Of `runs`: what was measured since.
    rules : AuditRules
    """
    is_known = runs["run_id"].isin(known["run_id"]) | runs["run_id"].isin(shown["run_id"])
    stand = audited(runs[is_known], rules).labels["run_id"]
    return shown[shown["run_id"].isin(stand)]
