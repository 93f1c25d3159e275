"""From a trained bundle and a model's structure to its peak GPU memory; pure."""

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pandas as pd

from data.domain import ModelStructure, Source
from features.structure import structure_features, structures_frame
from serving.inference.bundle import Bundle, Calibration, Floats, interval_frame

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
        Of ``colocast-memory``. Its calibration holds quantiles of log(measured / predicted).
    structures : DataFrame of shape (n, >= 13), any index
        As ``features.structure.structures_frame`` gives, or ``data.schemas.MEMORY_RUNS``.

    Returns
    -------
    DataFrame of shape (n, 5), indexed as `structures`
        ``value``, ``lower``, ``upper`` (MiB; `upper` is exceeded by about one in twenty),
        ``in_domain`` (bool) and ``source`` (``model``).

    Notes
    -----
    Far outside what it learnt the quadratic may answer less than anything ever took, even less
    than nothing. Such a row lies outside, and its weights alone are the better answer.
    """
    rows = structure_features(structures)[list(bundle.spec.features)]
    raw = bundle.predict(rows.to_numpy(np.float64)) if len(rows) else np.empty(0)
    nonsense = raw < bundle.spec.floor
    raw = np.where(nonsense, np.maximum(_weights_mib(rows), bundle.spec.floor), raw)
    groups = memory_groups(bundle.spec.calibration, structures, raw)
    # The quadratic adds up MiB, but errs in proportion: its error is calibrated as a ratio.
    relative = replace(bundle.spec, scale="log")
    estimates = interval_frame(relative, np.log(np.maximum(raw, SMALLEST_MIB)), rows, groups)
    in_domain = estimates["in_domain"] & ~nonsense
    return estimates.assign(in_domain=in_domain, source=str(Source.MODEL))


def _weights_mib(rows: pd.DataFrame) -> Floats:
    """Return what weights need as far as known; 0 where nothing is."""
    parts = rows.reindex(columns=["embedding_mib_per_gpu", "dense_mib"])
    return np.asarray(parts.fillna(0.0).sum(axis="columns"), dtype=np.float64)


def memory_groups(calibration: Calibration, structures: pd.DataFrame, raw_mib: Floats) -> pd.Series:
    """Return the narrowest calibrated group of each answer.

    Parameters
    ----------
    calibration : Calibration
    structures : DataFrame of shape (n, >= 2)
        ``framework`` and ``family``.
    raw_mib : array of shape (n,), float64

    Returns
    -------
    Series of str, indexed as `structures`
        The first of `group_ladder` that is calibrated, or else its last.
    """
    known = list(calibration.groups)
    ladder = group_ladder(structures, raw_mib)
    found = ladder[-1]
    for names in reversed(ladder[:-1]):
        found = names.where(names.isin(known), found)
    return found


def group_ladder(structures: pd.DataFrame, raw_mib: Floats) -> list[pd.Series]:
    """Return the groups of each answer, from narrow to wide.

    Relative errors differ between frameworks, between families and with memory: a group is a
    framework, a family and a factor of two of predicted memory; then less and less of these.

    Examples
    --------
    >>> structures = pd.DataFrame({"framework": ["HugeCTR/3.2"], "family": ["DLRM"]})
    >>> [names[0] for names in group_ladder(structures, np.array([5000.0]))]
    ['hugectr/DLRM/2^12', 'hugectr/DLRM', 'hugectr/2^12', 'hugectr', '2^12']
    """
    name, family = framework_names(structures["framework"]), structures["family"].astype("str")
    power = np.floor(np.log2(np.maximum(raw_mib, SMALLEST_MIB))).astype(np.int64)
    octave = "2^" + pd.Series(power, index=structures.index, dtype="int64").astype("str")
    both = name + "/" + family
    return [both + "/" + octave, both, name + "/" + octave, name, octave]


def framework_names(frameworks: pd.Series) -> pd.Series:
    """Return framework names in small letters, without their version.

    Examples
    --------
    >>> framework_names(pd.Series(["HugeCTR/3.2"])).tolist()
    ['hugectr']
    """
    return frameworks.astype("str").str.lower().str.split("/").str[0]
