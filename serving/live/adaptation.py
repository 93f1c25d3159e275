"""Measured pairs of a job move its own effects at once, without a refit."""

from dataclasses import replace

import numpy as np
import pandas as pd

from features.effect_tables import effect_tables, effects_from
from features.effects import adapted
from features.pairs import profile_positions
from serving.inference.bundle import Bundle
from serving.inference.interference_rows import effect_rows, has_effects

PAIR = ["job_key", "neighbour_key", "gpu_model"]
KNOWN_AFTER = 3  # measured neighbours; from then on a family counts as one that was learnt from


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
        `bundle` itself. A family of which a job was measured beside three neighbours is from
        then on calibrated as one that was learnt from.
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
    tables = {**bundle.tables, **effect_tables(moved, missing)}
    if "seen" in tables:
        tables["seen"] = _seen(tables["seen"], pairs, profiles)
    return replace(bundle, tables=tables)


def _seen(seen: pd.DataFrame, pairs: pd.DataFrame, profiles: pd.DataFrame) -> pd.DataFrame:
    """Return `seen` with the families of well measured jobs; their keys stay new."""
    neighbours = pairs.groupby(["job_key", "gpu_model"])["neighbour_key"].nunique()
    often = neighbours[neighbours >= KNOWN_AFTER].index.get_level_values("job_key")
    families = profiles.loc[profiles["job_key"].isin(often), "family"].unique()
    fresh = [name for name in families if name not in set(seen["family"])]
    if not fresh:
        return seen
    return pd.concat([seen, pd.DataFrame({"job_key": "", "family": fresh})], ignore_index=True)
