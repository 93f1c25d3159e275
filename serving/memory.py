"""From a trained bundle and a model's structure to its peak GPU memory; pure."""

from collections.abc import Iterable

import numpy as np
import pandas as pd

from data.domain import ModelStructure, Source
from features.structure import structure_features, structures_frame
from serving.bundle import Bundle, Floats, interval_frame

SMALLEST_MIB = 1.0


def memory_estimates(bundle: Bundle, structures: Iterable[ModelStructure]) -> pd.DataFrame:
    """Predict the peak GPU memory of each model; see `memory_estimates_of_rows`.

    Returns
    -------
    DataFrame of shape (n, 5), index 0 to n - 1
    """
    return memory_estimates_of_rows(bundle, structures_frame(structures))


def memory_estimates_of_rows(bundle: Bundle, structures: pd.DataFrame) -> pd.DataFrame:
    """Predict the peak GPU memory of each model on one GPU.

    Parameters
    ----------
    bundle : Bundle
        Of ``colocast-memory``.
    structures : DataFrame of shape (n, >= 13), any index
        As ``features.structure.structures_frame`` gives, or ``data.schemas.MEMORY_RUNS``.

    Returns
    -------
    DataFrame of shape (n, 5), indexed as `structures`
        ``value``, ``lower``, ``upper`` (MiB; `upper` is exceeded by about one in twenty),
        ``in_domain`` (bool) and ``source`` (``model``).
    """
    rows = structure_features(structures)[list(bundle.spec.features)]
    raw = bundle.predict(rows.to_numpy(np.float64)) if len(rows) else np.empty(0)
    groups = memory_groups(bundle, structures["framework"], raw)
    estimates = interval_frame(bundle.spec, raw, rows, groups)
    return estimates.assign(source=str(Source.MODEL))


def memory_groups(bundle: Bundle, frameworks: pd.Series, raw_mib: Floats) -> pd.Series:
    """Return the narrowest calibrated group of each answer.

    Errors grow with memory, and differ between frameworks: a group is a framework and a factor
    of two of predicted memory, or else the framework, or else the factor of two.

    Parameters
    ----------
    bundle : Bundle
    frameworks : Series of str, length n
    raw_mib : array of shape (n,), float64

    Returns
    -------
    Series of str, indexed as `frameworks`
    """
    name, octave = group_parts(frameworks, raw_mib)
    known = list(bundle.spec.calibration.groups)
    both = name + "/" + octave
    return both.where(both.isin(known), name.where(name.isin(known), octave))


def group_parts(frameworks: pd.Series, raw_mib: Floats) -> tuple[pd.Series, pd.Series]:
    """Return framework without version, and floor of the binary logarithm of predicted memory.

    Examples
    --------
    >>> parts = group_parts(pd.Series(["HugeCTR/3.2"]), np.array([5000.0]))
    >>> [part.tolist() for part in parts]
    [['hugectr'], ['2^12']]
    """
    name = frameworks.astype("str").str.lower().str.split("/").str[0]
    octave = np.floor(np.log2(np.maximum(raw_mib, SMALLEST_MIB))).astype(np.int64)
    return name, "2^" + pd.Series(octave, index=frameworks.index, dtype="int64").astype("str")
