"""The jobs between which effects are shared: what makes two of them alike."""

from collections.abc import Mapping
from dataclasses import dataclass, fields

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from features.job_keys import batch_sizes, precisions

Floats = NDArray[np.float64]
Names = NDArray[np.str_]

BUSY_COLUMNS = ("sm_active_mean", "gpu_util_mean")  # GPU utilisation saturates: the last resort
DRAM_COLUMN = "dram_active_mean"
MIDDLE = 0.5  # of a signal that no job has; any constant would do
SIGNAL_SCALE = 0.5  # two profiles this far apart have e^-1/2 of their effect in common
REDUCED = ("amp", "fp16", "bf16", "fp8", "int8")


@dataclass(frozen=True, slots=True)
class Stand:
    """What stands in for what a profile or a job key lacks.

    Attributes
    ----------
    busy_column : str
        Of the profile: how busy the device's compute units are.
    busy, dram : float
        Medians of the training jobs, ratios in [0, 1].
    log2_batch : float
        Median of the training jobs, logarithm of a count.
    """

    busy_column: str
    busy: float
    dram: float
    log2_batch: float


@dataclass(frozen=True, slots=True)
class EffectJobs:
    """Jobs on their GPU models, by what effects are shared over; m of them.

    Attributes
    ----------
    job_key, gpu_model, family, precision : str array of shape (m,)
    log2_batch : float64 array of shape (m,)
    busy, dram : float64 array of shape (m,), ratios in [0, 1]
        How busy compute units and device memory are when the job runs alone.
    """

    job_key: Names
    gpu_model: Names
    family: Names
    precision: Names
    log2_batch: Floats
    busy: Floats
    dram: Floats

    def __len__(self) -> int:
        """Return the number of jobs."""
        return len(self.job_key)

    def followed_by(self, other: "EffectJobs") -> "EffectJobs":
        """Return these jobs and then those of `other`."""
        columns = [[getattr(each, f.name) for each in (self, other)] for f in fields(self)]
        return EffectJobs(*(np.concatenate(pair) for pair in columns))

    @property
    def reduced(self) -> Floats:
        """1 where the job computes in less than 32 bits, else 0."""
        return np.isin(self.precision, REDUCED).astype(np.float64)


def stand(profiles: pd.DataFrame) -> Stand:
    """Return medians of what effects are shared over, and the signal that tells how busy.

    Parameters
    ----------
    profiles : DataFrame, ``data.schemas.PROFILES``

    Examples
    --------
    >>> stand(pd.DataFrame({"job_key": ["a/b8", "c"], "gpu_util_mean": [0.2, 0.4]}))
    ... # doctest: +NORMALIZE_WHITESPACE
    Stand(busy_column='gpu_util_mean', busy=0.30000000000000004, dram=0.5, log2_batch=3.0)
    """
    known = [profiles.reindex(columns=[name])[name].notna().sum() for name in BUSY_COLUMNS]
    busy_column = BUSY_COLUMNS[int(np.argmax(known))]
    return Stand(
        busy_column=busy_column,
        busy=_median(profiles, busy_column),
        dram=_median(profiles, DRAM_COLUMN),
        log2_batch=_median(pd.DataFrame({"b": np.log2(batch_sizes(profiles["job_key"]))}), "b"),
    )


def effect_jobs(profiles: pd.DataFrame, missing: Stand) -> EffectJobs:
    """Return what effects are shared over, of each row of `profiles`.

    Parameters
    ----------
    profiles : DataFrame of shape (m, ...), ``data.schemas.PROFILES``
    missing : Stand
    """
    signals = profiles.reindex(columns=[missing.busy_column, DRAM_COLUMN])
    signals = signals.set_axis(["busy", "dram"], axis="columns").astype("float64")
    signals = signals.fillna({"busy": missing.busy, "dram": missing.dram})
    sizes = batch_sizes(profiles["job_key"]).fillna(2**missing.log2_batch)
    job_key, gpu_model, family = (
        profiles[name].to_numpy(dtype=str) for name in ("job_key", "gpu_model", "family")
    )
    return EffectJobs(
        job_key,
        gpu_model,
        family,
        precision=precisions(profiles["job_key"]).to_numpy(dtype=str),
        log2_batch=np.log2(np.maximum(sizes.to_numpy(np.float64), 1)),
        busy=signals["busy"].to_numpy(np.float64),
        dram=signals["dram"].to_numpy(np.float64),
    )


def likeness(left: EffectJobs, right: EffectJobs, signal_scale: float) -> Mapping[str, Floats]:
    """Return how alike each job of `left` is to each of `right`, in several senses.

    Parameters
    ----------
    left, right : EffectJobs
    signal_scale : float, > 0
        How far apart two profiles are (ratio) that have e^-1/2 of their effect in common.

    Returns
    -------
    mapping of str to float64 array of shape (m_left, m_right), in [0, 1]
        Positive semidefinite as covariances: ``any`` (all 1), ``job`` (same key), ``family``,
        ``precision``, ``signals`` (near in both signals), and products of these: ``family_batch``
        (near in batch size), ``family_precision``, ``family_signals``.
    """
    job, family, precision = (
        _same(getattr(left, name), getattr(right, name))
        for name in ("job_key", "family", "precision")
    )
    apart = np.subtract.outer(left.busy, right.busy) ** 2
    apart += np.subtract.outer(left.dram, right.dram) ** 2
    signals = np.exp(-apart / (2 * signal_scale**2))
    batch = np.exp(-(np.subtract.outer(left.log2_batch, right.log2_batch) ** 2) / 2)
    return {
        "any": np.ones_like(job),
        "job": job,
        "family": family,
        "precision": precision,
        "signals": signals,
        "family_batch": family * batch,
        "family_precision": family * precision,
        "family_signals": family * signals,
    }


def same_gpu(left: EffectJobs, right: EffectJobs) -> Floats:
    """Return 1 where both jobs ran on the same GPU model, shape (m_left, m_right)."""
    return _same(left.gpu_model, right.gpu_model)


def _same(left: Names, right: Names) -> Floats:
    return np.equal(left[:, None], right[None, :]).astype(np.float64)


def _median(frame: pd.DataFrame, name: str) -> float:
    middle = frame.reindex(columns=[name])[name].median()
    return float(middle) if np.isfinite(middle) else MIDDLE
