"""How well a slowdown can be measured at all: the noise of repeats and of self-pairs."""

from dataclasses import dataclass

import numpy as np
import pandas as pd


@dataclass(frozen=True, slots=True)
class Noise:
    """The measured noise of the labels, and what it allows.

    Attributes
    ----------
    repeat_sd : float
        Relative standard deviation of repeated runs of the same job, alone or beside the same
        neighbour, pooled; NaN where nothing was repeated.
    self_pair_rms : float
        Rms difference in slowdown, per label, between the two sides of a job beside itself; NaN
        where there is no such pair.
    label_sd : float
        Relative noise of one label: the larger of `repeat_sd` and of the self-pairs' difference
        in log slowdown, or the rules' assumption.
    is_measured : bool
        False where `label_sd` is the assumption.
    floor : float
        Lowest slowdown that the noise explains: 1 - `noise_sds` x `label_sd`.
    ceiling_r2 : float
        Highest R² that a perfect model could reach on the kept labels; NaN where the noise was
        not measured or fewer than two labels are kept.
    """

    repeat_sd: float
    self_pair_rms: float
    label_sd: float
    is_measured: bool
    floor: float
    ceiling_r2: float


def repeat_sd(runs: pd.DataFrame) -> float:
    """Return the pooled relative standard deviation of repeated measurements.

    Parameters
    ----------
    runs : DataFrame
        ``job_key``, ``gpu_model``, ``neighbour_key`` (null when exclusive), ``pace`` (> 0) and
        its ``measure``, as ``labels.paces`` gives them.

    Examples
    --------
    >>> runs = pd.DataFrame({"job_key": "a", "gpu_model": "v100", "neighbour_key": None,
    ...     "measure": "jct_s", "pace": [0.9, 1.1]})
    >>> round(repeat_sd(runs), 4)
    0.1419
    """
    # The log makes the spread relative and puts jobs of any length on one scale.
    logs = np.log(runs["pace"].to_numpy(dtype="float64"))
    keys = ("job_key", "gpu_model", "neighbour_key", "measure")
    groups = pd.Series(logs).groupby([runs[name].fillna("").to_numpy() for name in keys])
    deviations = logs - groups.transform("mean").to_numpy()
    freedom = len(logs) - groups.ngroups
    return float(np.sqrt((deviations**2).sum() / freedom)) if freedom > 0 else float("nan")


def self_pair_rms(labels: pd.DataFrame) -> float:
    """Return how much the slowdowns of the two sides of a job beside itself differ, per label.

    Parameters
    ----------
    labels : DataFrame
        The columns of ``data.schemas.LABELS`` and ``neighbour_run_id``.

    Notes
    -----
    Both sides run the same job under the same conditions, so their difference is noise; it has
    twice the variance of one label.
    """
    by_run = labels.set_index("run_id")["slowdown"]
    selves = labels[labels["job_key"] == labels["neighbour_key"]]
    # Each pair is counted once, from the side whose id sorts first.
    first = selves[selves["run_id"] < selves["neighbour_run_id"].fillna("")]
    one = first["slowdown"].to_numpy(dtype="float64")
    other = by_run.reindex(first["neighbour_run_id"]).to_numpy(dtype="float64")
    difference = (one - other)[np.isfinite(other)]
    return float(np.sqrt((difference**2).mean() / 2)) if len(difference) else float("nan")


def ceiling_r2(slowdowns: pd.Series, repeat: float, self_pair: float) -> float:
    """Return 1 − noise variance / label variance: the highest R² that the noise allows.

    Parameters
    ----------
    slowdowns : Series of float
    repeat, self_pair : float
        `repeat_sd` (relative, so it grows with the slowdown) and `self_pair_rms`; the larger
        variance counts.

    Returns
    -------
    float
        In [0, 1]; NaN where neither noise is known, or the slowdowns do not vary.

    Examples
    --------
    >>> round(ceiling_r2(pd.Series([1.0, 1.2, 1.4]), float("nan"), 0.03), 4)
    0.9775
    """
    relative = repeat**2 * float((slowdowns**2).mean()) if len(slowdowns) else repeat
    known = [value for value in (relative, self_pair**2) if np.isfinite(value)]
    if not known or len(slowdowns) < 2 or slowdowns.var() == 0:
        return float("nan")
    return max(0.0, 1 - max(known) / float(slowdowns.var()))


def measured_noise(
    labels: pd.DataFrame, repeats: pd.DataFrame, noise_sds: float, assumed_sd: float
) -> Noise:
    """Return the noise of `labels`, and what it allows.

    Parameters
    ----------
    labels : DataFrame
        The columns of ``data.schemas.LABELS`` and ``neighbour_run_id``; no outliers.
    repeats : DataFrame, as for `repeat_sd`
    noise_sds, assumed_sd : float
        As in ``AuditRules``.
    """
    repeat, self_pair = repeat_sd(repeats), self_pair_rms(labels)
    logs = np.log(labels["slowdown"].to_numpy(dtype="float64"))
    relative = self_pair_rms(labels.assign(slowdown=logs))
    known = [value for value in (repeat, relative) if np.isfinite(value)]
    sd = max(known) if known else assumed_sd
    return Noise(
        repeat_sd=repeat,
        self_pair_rms=self_pair,
        label_sd=sd,
        is_measured=bool(known),
        floor=max(0.0, 1 - noise_sds * sd),
        ceiling_r2=ceiling_r2(labels["slowdown"], repeat, self_pair),
    )
