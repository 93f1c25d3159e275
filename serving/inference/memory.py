"""From a trained bundle and a model's structure to its peak GPU memory; pure."""

from collections.abc import Iterable

import numpy as np
import pandas as pd

from data.domain import ModelStructure, Source
from features.memory_terms import EXACT, FRAMEWORK, KIND, kin, memory_features, nearest_kinship
from features.structure import structures_frame
from serving.inference.bundle import Bundle, Calibration, Floats
from serving.inference.memory_beyond import distance, widened

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
        ``in_domain`` (bool: the framework's version and the family were learnt, and every known
        size lies in their range) and ``source`` (``model``).
    """
    rows = memory_features(structures, bundle.spec.features)
    value = answers_mib(bundle, rows)
    quantiles = within_quantiles(bundle.spec.calibration, structures, value)
    near = nearest_kinship(structures, bundle.spec.features)
    quantiles, within = widened(bundle, quantiles, near, distance(bundle, rows, value))
    bounds = value[:, None] * np.exp(quantiles)
    return pd.DataFrame(
        {
            "value": value,
            "lower": np.minimum(np.maximum(bounds[:, 0], bundle.spec.floor), value),
            "upper": np.maximum(bounds[:, 1], value),
            "in_domain": within,
            "source": str(Source.MODEL),
        },
        index=structures.index,
    )


def answers_mib(bundle: Bundle, rows: pd.DataFrame) -> Floats:
    """Return what the model says of rows of features (MiB), never below its floor."""
    raw = bundle.predict(rows.to_numpy(np.float64)) if len(rows) else np.empty(0)
    return np.asarray(np.maximum(raw, max(bundle.spec.floor, SMALLEST_MIB)), dtype=np.float64)


def within_quantiles(calibration: Calibration, structures: pd.DataFrame, answers: Floats) -> Floats:
    """Return the quantiles of log(measured / predicted) of rows within what was learnt.

    Parameters
    ----------
    calibration : Calibration
    structures : DataFrame of shape (n, >= 2)
        ``framework`` and ``family``.
    answers : array of shape (n,), float64
        MiB.

    Returns
    -------
    array of shape (n, 2), float64
        Of the first of `group_ladder` that is calibrated, or the default ones.
    """
    found = np.tile(np.array(calibration.default, dtype=np.float64), (len(structures), 1))
    for names in reversed(group_ladder(structures, answers)):
        for name in names.unique():
            if name in calibration.groups:
                found[(names == name).to_numpy()] = calibration.groups[name]
    return found


def group_ladder(structures: pd.DataFrame, answers: Floats) -> list[pd.Series]:
    """Return the calibration groups of each answer, from narrow to wide.

    Relative errors differ between frameworks, between families and with memory: a group is a
    framework, a family and a factor of two of predicted memory; then less and less of these.

    Examples
    --------
    >>> structures = pd.DataFrame({"framework": ["HugeCTR/3.2"], "family": ["DLRM"]})
    >>> for names in group_ladder(structures, np.array([5000.0])):
    ...     print(names[0])
    hugectr/3.2 dlrm 2^12
    hugectr/3.2 dlrm
    hugectr dlrm 2^12
    hugectr dlrm
    hugectr 2^12
    hugectr
    2^12
    """
    power = np.floor(np.log2(np.maximum(answers, SMALLEST_MIB))).astype(np.int64)
    octave = "2^" + pd.Series(power, index=structures.index, dtype="int64").astype("str")
    groups = kin(structures)
    pairs = [(groups[name] + " " + octave, groups[name]) for name in (EXACT, KIND, FRAMEWORK)]
    return [*(each for pair in pairs for each in pair), octave]


def framework_names(frameworks: pd.Series) -> pd.Series:
    """Return framework names in small letters, without their version.

    Examples
    --------
    >>> framework_names(pd.Series(["HugeCTR/3.2"])).tolist()
    ['hugectr']
    """
    return frameworks.astype("str").str.lower().str.split("/").str[0]
