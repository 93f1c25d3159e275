"""Calibrate runtime models on jobs that they were not fitted to, and allow for drift."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from features.evidence import evidence_groups
from features.history import USER_CODE
from pipelines.runtime.rows import Floats, JobRows
from serving.inference.bundle import Bundle
from serving.inference.residuals import residual_table, table_calibration, weighted_quantiles
from serving.inference.runtime import runtime_log, user_range

LARGEST_DRIFT = 1.5


@dataclass(frozen=True, slots=True)
class HeldOut:
    """Residuals of jobs that no model was fitted to, asked about at submission and at start.

    Attributes
    ----------
    residuals : float64 array of shape (2 n,)
        Log runtime observed minus predicted.
    groups : Series of str, length 2 n
        ``features.evidence.EVIDENCE_GROUPS``.
    batch : uint64 array of shape (2 n,)
        Equal for the jobs of one batch.
    user : float64 array of shape (2 n,)
        ``features.history.USER_CODE``.
    low, high : float64 array of shape (2 n,)
        The user's own range, which intervals always hold; 0 for a cluster model.
    """

    residuals: Floats
    groups: "pd.Series[str]"
    batch: NDArray[np.uint64]
    user: Floats
    low: Floats
    high: Floats

    @classmethod
    def of(cls, rows: JobRows, cluster: Bundle, user: Bundle | None) -> "HeldOut":
        """Return the residuals of a cluster model, with or without its user model."""
        asked = (rows.at_start, rows.at_submission)
        raw = [runtime_log(cluster, user, part.features) for part in asked]
        residuals = [part.runtime_log - value for part, value in zip(asked, raw, strict=True)]
        groups = [evidence_groups(part.features) for part in asked]
        ranges = [
            user_range(value, part.features) if user is not None else _nowhere(len(value))
            for part, value in zip(asked, raw, strict=True)
        ]
        low, high = (np.concatenate(ends) for ends in zip(*ranges, strict=True))
        return cls(
            residuals=np.concatenate(residuals),
            groups=pd.concat(groups, ignore_index=True),
            batch=np.tile(rows.at_start.batch, len(asked)),
            user=np.tile(rows.at_start.features[USER_CODE].to_numpy(np.float64), len(asked)),
            low=low,
            high=high,
        )

    @property
    def weights(self) -> Floats:
        """How much each row counts: a batch of m jobs as much as the root of m jobs.

        The jobs of a batch end alike, so they are not m pieces of evidence.
        """
        _, batch, sizes = np.unique(self.batch, return_inverse=True, return_counts=True)
        return np.asarray(np.sqrt(2 / sizes[batch]))  # each job is there twice

    def where(self, jobs: NDArray[np.bool_]) -> "HeldOut":
        """Return the jobs where a mask of shape (n,) holds."""
        rows = np.tile(jobs, 2)
        groups = self.groups[rows].reset_index(drop=True)
        return HeldOut(
            residuals=self.residuals[rows],
            groups=groups,
            batch=self.batch[rows],
            user=self.user[rows],
            low=self.low[rows],
            high=self.high[rows],
        )

    def table(self, drift: float = 1.0) -> pd.DataFrame:
        """Return the quantiles of the residuals, widened by a factor."""
        return residual_table(self.residuals * drift, self.groups, weights=self.weights)


def drift(table: pd.DataFrame, newer: HeldOut, level: float) -> float:
    """Return how much wider intervals must be to hold their share of newer jobs.

    What the user's own range holds needs no interval.

    Parameters
    ----------
    table : DataFrame
        ``serving.inference.residuals.residual_table`` of older jobs.
    newer : HeldOut
        Of the jobs that finished after those.
    level : float
        Nominal coverage, in (0, 1).

    Returns
    -------
    float
        In [1, 1.5]; 1 where nothing has drifted. Never below: a job that runs has no such range.

    Notes
    -----
    One step of what Gibbs and Candès, "Adaptive Conformal Inference Under Distribution Shift",
    NeurIPS 2021, do at every step: the past miss sets the next width.
    """
    shares = needed(table, newer, level)
    factor = weighted_quantiles(shares, newer.weights, np.array([level]))[0]
    return float(np.clip(factor, 1.0, LARGEST_DRIFT))


def needed(table: pd.DataFrame, held: HeldOut, level: float) -> Floats:
    """Return by how much each interval would have to be multiplied to hold its job, shape (2 n,).

    Parameters
    ----------
    table, level
        As for `drift`.
    held : HeldOut
        What the user's own range holds needs 0.
    """
    calibration = table_calibration(table, level, 1.0)
    bounds = [calibration.groups.get(group, calibration.default) for group in held.groups]
    low, high = np.array(bounds, dtype=np.float64).T
    reach = np.where(held.residuals > 0, np.maximum(high, 0), np.minimum(low, 0))
    shares = np.abs(held.residuals) / np.maximum(np.abs(reach), 1e-9)
    is_held = (held.low <= held.residuals) & (held.residuals <= held.high)
    return np.where(is_held, 0.0, shares)


def _nowhere(n: int) -> tuple[Floats, Floats]:
    return np.zeros(n), np.zeros(n)
