"""Measured pairs of a job move its own effects at once, without a refit."""

from dataclasses import replace

import numpy as np
import pandas as pd

from features.effect_tables import effect_tables, effects_from
from features.effects import adapted
from features.pairs import profile_positions
from serving.inference.bundle import Bundle
from serving.inference.interference import MEASURED_TABLE
from serving.inference.interference_rows import effect_rows, has_effects

PAIR = ["job_key", "neighbour_key", "gpu_model"]


def adapted_bundle(bundle: Bundle, observed: pd.DataFrame) -> Bundle:
    """Return the bundle after more pairs were measured.

    Parameters
    ----------
    bundle : Bundle
        Of ``colocast-interference``.
    observed : DataFrame of shape (k, >= 4)
        ``job_key``, ``neighbour_key``, ``gpu_model`` and ``slowdown`` (> 0). A pair with a job
        that has no profile teaches nothing yet; repeats of a pair count as their median.

    Returns
    -------
    Bundle
        Forest, kernel and calibration are those of `bundle`; with nothing to learn from it is
        `bundle` itself. Which calibrated group a new job is in follows beside how many others it
        was measured: the table ``measured`` counts them.
    """
    if observed.empty or not has_effects(bundle):
        return bundle
    profiles = bundle.tables["profiles"]
    known = (profile_positions(profiles, observed) >= 0).all(axis=1)
    if not known.any():
        return bundle
    logs = observed[PAIR].assign(log=np.log(observed["slowdown"]))[known]
    pairs = logs.groupby(PAIR, sort=True)["log"].median().reset_index()
    learnt, missing = effects_from(bundle.tables)
    rows = effect_rows(profiles, pairs, missing)
    moved = adapted(learnt, rows, pairs["log"].to_numpy(np.float64))
    neighbours = pairs.groupby(["job_key", "gpu_model"])["neighbour_key"].nunique()
    measured = neighbours.rename("neighbours").reset_index()
    tables = {**bundle.tables, **effect_tables(moved, missing), MEASURED_TABLE: measured}
    return replace(bundle, tables=tables)
