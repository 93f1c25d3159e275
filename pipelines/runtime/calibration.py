"""Calibrate runtime models on jobs that they were not fitted to, and allow for drift."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from features.evidence import evidence_groups
from pipelines.runtime.rows import Floats, JobRows
from serving.inference.bundle import Bundle
from serving.inference.residuals import residual_table, table_calibration
from serving.inference.runtime import runtime_log

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
    """

    residuals: Floats
    groups: "pd.Series[str]"

    @classmethod
    def of(cls, rows: JobRows, cluster: Bundle, user: Bundle | None) -> "HeldOut":
        """Return the residuals of a cluster model, with or without its user model."""
        asked = (rows.at_start, rows.at_submission)
        residuals = [part.runtime_log - runtime_log(cluster, user, part.features) for part in asked]
        groups = [evidence_groups(part.features) for part in asked]
        return cls(np.concatenate(residuals), pd.concat(groups, ignore_index=True))

    def table(self, drift: float = 1.0) -> pd.DataFrame:
        """Return the quantiles of the residuals, widened by a factor."""
        return residual_table(self.residuals * drift, self.groups)


def drift(table: pd.DataFrame, newer: HeldOut, level: float) -> float:
    """Return how much wider intervals must be to hold their share of newer jobs.

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
        In [1, 1.5]; 1 where nothing has drifted.

    Notes
    -----
    One step of what Gibbs and Candès, "Adaptive Conformal Inference Under Distribution Shift",
    NeurIPS 2021, do at every step: the past miss sets the next width.
    """
    calibration = table_calibration(table, level, 1.0)
    bounds = [calibration.groups.get(group, calibration.default) for group in newer.groups]
    low, high = np.array(bounds, dtype=np.float64).T
    reach = np.where(newer.residuals > 0, np.maximum(high, 0), np.minimum(low, 0))
    needed = np.abs(newer.residuals) / np.maximum(np.abs(reach), 1e-9)
    return float(np.clip(np.quantile(needed, level), 1.0, LARGEST_DRIFT))
