"""What interference is predicted from: both exclusive profiles and the physics of the pair."""

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from data.domain import PROFILE_COLUMNS, RATIO_SIGNALS, SIGNALS
from data.errors import UnknownProfileError

JOB_COLUMNS = tuple(f"{name}_job" for name in PROFILE_COLUMNS)
NEIGHBOUR_COLUMNS = tuple(f"{name}_neighbour" for name in PROFILE_COLUMNS)
SUM_COLUMNS = tuple(f"{name}_sum" for name in RATIO_SIGNALS)
OVERFLOW_COLUMNS = tuple(f"{name}_overflow" for name in RATIO_SIGNALS)
PRODUCT_COLUMNS = tuple(f"{name}_product" for name in RATIO_SIGNALS)
SHARE_COLUMNS = tuple(f"{name}_share" for name in SIGNALS)
PAIR_COLUMNS = (
    *JOB_COLUMNS,
    *NEIGHBOUR_COLUMNS,
    *SUM_COLUMNS,
    *OVERFLOW_COLUMNS,
    *PRODUCT_COLUMNS,
    *SHARE_COLUMNS,
)
"""Every input column of the interference model, in order."""

_RATIO_MEANS = [f"{name}_mean" for name in RATIO_SIGNALS]
_MEANS = [f"{name}_mean" for name in SIGNALS]
_RATIOS_AT = [PROFILE_COLUMNS.index(name) for name in _RATIO_MEANS]
_MEANS_AT = [PROFILE_COLUMNS.index(name) for name in _MEANS]
_CAPACITY = 1.0  # of every ratio signal: a device cannot be more than wholly busy
_Floats = NDArray[np.float64]


def pair_features(profiles: pd.DataFrame, pairs: pd.DataFrame) -> pd.DataFrame:
    """Describe each colocation by both jobs' profiles, the slowed job first.

    Parameters
    ----------
    profiles : DataFrame, ``data.schemas.PROFILES``
        Medians over exclusive runs, one row a job key and GPU model.
    pairs : DataFrame of shape (n_pairs, 3), any index
        ``job_key`` (the one slowed down), ``neighbour_key`` and ``gpu_model``.

    Returns
    -------
    DataFrame of shape (n_pairs, 52), indexed as `pairs`
        ``PAIR_COLUMNS``, all float64. First the profile of the job (``_job``), then of the
        neighbour (``_neighbour``), in the units of the profile. Then of each ratio signal's mean
        the sum (``_sum``, in [0, 2]), what of it exceeds the device (``_overflow``, in [0, 1]) and
        the product (``_product``, in [0, 1]), and of each signal's mean the job's part of the sum
        (``_share``, in [0, 1], one half where both are zero). NaN where a profile lacks the signal.

    Raises
    ------
    UnknownProfileError
        If a job key has no profile on that GPU model.

    Notes
    -----
    Device counters of both jobs as inputs follow DeepShare; nothing here was measured while the
    two ran together. Demand above capacity as the mechanism of slowdown: Chen et al., "Prophet",
    ASPLOS 2017.

    Examples
    --------
    >>> profiles = pd.DataFrame({"job_key": ["a", "b"], "gpu_model": "v100",
    ...     "sm_active_mean": [0.9, 0.3]})
    >>> pairs = pd.DataFrame({"job_key": ["a"], "neighbour_key": ["b"], "gpu_model": ["v100"]})
    >>> features = pair_features(profiles, pairs)
    >>> features[["sm_active_mean_job", "sm_active_overflow", "sm_active_share"]].round(2).values
    array([[0.9 , 0.2 , 0.75]])
    """
    at = profile_positions(profiles, pairs)
    unknown = (at < 0).any(axis=1)
    if unknown.any():
        keys = pairs[["job_key", "neighbour_key"]].to_numpy(dtype=object)
        raise UnknownProfileError(sorted(set(keys[at < 0])))
    signals = profiles.reindex(columns=list(PROFILE_COLUMNS)).to_numpy(np.float64)
    values = pair_values(signals[at[:, 0]], signals[at[:, 1]])
    return pd.DataFrame(values, index=pairs.index, columns=list(PAIR_COLUMNS))


def profile_positions(profiles: pd.DataFrame, pairs: pd.DataFrame) -> NDArray[np.intp]:
    """Return where both jobs of each pair stand in `profiles`, -1 where nowhere.

    Parameters
    ----------
    profiles : DataFrame
        ``job_key`` and ``gpu_model``, each combination once.
    pairs : DataFrame of shape (n_pairs, 3)
        ``job_key``, ``neighbour_key`` and ``gpu_model``.

    Returns
    -------
    array of shape (n_pairs, 2), intp
        Row numbers of the job and of the neighbour.

    Examples
    --------
    >>> profiles = pd.DataFrame({"job_key": ["a", "b"], "gpu_model": "v100"})
    >>> pairs = pd.DataFrame({"job_key": ["b"], "neighbour_key": ["c"], "gpu_model": ["v100"]})
    >>> profile_positions(profiles, pairs)
    array([[ 1, -1]])
    """
    known = pd.MultiIndex.from_frame(profiles[["job_key", "gpu_model"]])
    sides = [
        pd.MultiIndex.from_arrays([pairs[side], pairs["gpu_model"]])
        for side in ("job_key", "neighbour_key")
    ]
    return np.column_stack([known.get_indexer(side) for side in sides])


def pair_values(job: _Floats, neighbour: _Floats) -> _Floats:
    """Return the values of ``PAIR_COLUMNS``, from those of ``PROFILE_COLUMNS``.

    Parameters
    ----------
    job, neighbour : array of shape (n, 15), float64

    Returns
    -------
    array of shape (n, 52), float64
    """
    job_ratios, neighbour_ratios = job[:, _RATIOS_AT], neighbour[:, _RATIOS_AT]
    total = job_ratios + neighbour_ratios
    overflow = np.maximum(total - _CAPACITY, 0.0)
    product = job_ratios * neighbour_ratios
    return np.hstack([job, neighbour, total, overflow, product, _share(job, neighbour)])


def _share(job: _Floats, neighbour: _Floats) -> _Floats:
    part, whole = job[:, _MEANS_AT], job[:, _MEANS_AT] + neighbour[:, _MEANS_AT]
    share = np.full_like(part, 0.5)
    share[np.isnan(whole)] = np.nan  # missing is not idle
    return np.divide(part, whole, out=share, where=whole > 0)
