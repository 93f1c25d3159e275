"""Runtime estimates: anchor, cluster trees, the user's own correction, and an interval."""

import numpy as np
import pandas as pd

from data.domain import Source
from features.evidence import evidence_groups
from features.history import ANCHOR, USER_OFFSET
from features.history_levels import CLUSTER_LEVELS
from features.window_statistics import FLOOR_S
from serving.inference.bundle import Bundle, Floats, ModelSpec, inside
from serving.inference.residuals import QUANTILES, residuals_from_table
from serving.inference.widening import user_widening

BLEND_JOBS = "blend_jobs"
"""Fact of the user model: the user's jobs after which its correction counts half."""

LIMIT_ENFORCED = "limit_enforced"
"""Fact: ``yes`` where the training jobs never outlived their limits."""

LIMIT_SLACK = 1.02
NO_MODEL_FACTOR = 20.0
"""Without any model the interval reaches from a twentieth of the anchor to twenty times it."""


def runtime_estimates(
    cluster: Bundle | None, user: Bundle | None, rows: pd.DataFrame, elapsed_s: Floats
) -> pd.DataFrame:
    """Estimate whole runtimes, given how long each job has been running.

    Parameters
    ----------
    cluster, user : Bundle, optional
        ``colocast-runtime-cluster`` and ``colocast-runtime-user``; without `cluster`, `user` is
        not used either.
    rows : DataFrame of shape (n, n_features)
        From ``features.history.RuntimeHistory.transform``.
    elapsed_s : float64 array of shape (n,), >= 0
        0 for a job that has not started.

    Returns
    -------
    DataFrame of shape (n, 5), indexed as `rows`
        ``value``, ``lower``, ``upper`` in seconds, with ``0 < lower <= value <= upper`` and none
        below `elapsed_s`; ``in_domain`` (bool); ``source`` (``user_model`` where the user's
        history took part, ``cold_start`` where nothing like the job has ever finished).

    Notes
    -----
    A running job is predicted anew from the distribution that its survival leaves: Ling et al.,
    "LAVA: Lifetime-Aware VM Allocation with Learned Distributions and Adaptation to
    Mispredictions", MLSys 2025.
    """
    calibrated = user or cluster
    if cluster is None or calibrated is None:
        return _without_model(rows, elapsed_s)
    raw = runtime_log(cluster, user, rows)
    residuals = residuals_from_table(calibrated.tables[QUANTILES], calibrated.spec.calibration)
    in_domain = inside(calibrated.spec, rows)
    widen = np.where(in_domain, 1.0, calibrated.spec.calibration.outside)
    groups, elapsed_log = evidence_groups(rows), _log(elapsed_s)
    estimates = residuals.conditional(raw, groups, elapsed_log, widen)
    if user is not None:
        widen = widen * user_widening(user.tables, rows)
        wider = residuals.conditional(raw, groups, elapsed_log, widen)
        estimates = estimates.assign(
            lower=np.minimum(estimates["lower"], wider["lower"]),
            upper=np.maximum(estimates["upper"], wider["upper"]),
        )
        estimates = _with_range(estimates, raw, user_range(raw, rows), widen, elapsed_s)
    bounded = _bounded(estimates, rows, elapsed_s, calibrated.spec)
    return bounded.assign(in_domain=in_domain, source=_sources(user, rows))


def runtime_log(cluster: Bundle, user: Bundle | None, rows: pd.DataFrame) -> Floats:
    """Return what the models say before calibration, as the logarithm of seconds.

    Parameters
    ----------
    cluster : Bundle
    user : Bundle, optional
    rows : DataFrame of shape (n, n_features)

    Returns
    -------
    float64 array of shape (n,)
    """
    of_anyone: Floats = rows[ANCHOR].to_numpy(np.float64) + _raw(cluster, rows)
    if user is None:
        return of_anyone
    of_user = rows[[ANCHOR, USER_OFFSET]].to_numpy(np.float64).sum(axis=1) + _raw(user, rows)
    return np.asarray(of_anyone + user_weight(user.spec, rows) * (of_user - of_anyone))


def user_range(raw: Floats, rows: pd.DataFrame) -> tuple[Floats, Floats]:
    """Return between what the user's newest jobs took lies around a prediction.

    Whatever the prediction, the interval of a job that waits holds all but the shortest and the
    longest tenth of them: calibrated over all users, it would be too narrow for those whose jobs
    differ most.

    Parameters
    ----------
    raw : float64 array of shape (n,)
        Predicted log runtimes.
    rows : DataFrame of shape (n, n_features)

    Returns
    -------
    low, high : float64 array of shape (n,)
        Log runtimes less the prediction, ``low <= 0 <= high``; 0 without history.
    """
    away = rows[ANCHOR].to_numpy(np.float64) - raw
    low, high = (rows[f"user_{end}"].to_numpy(np.float64) + away for end in ("low", "high"))
    return np.fmin(low, 0.0), np.fmax(high, 0.0)


def user_weight(spec: ModelSpec, rows: pd.DataFrame) -> Floats:
    """Return how much the user's correction counts, in [0, 1): n / (n + blend jobs).

    n are the user's finished jobs, or the newest that have started where those are more.
    """
    finished = np.expm1(rows["user_jobs"].to_numpy(np.float64))
    jobs = np.maximum(finished, rows["user_started"].to_numpy(np.float64))
    return np.asarray(jobs / (jobs + float(spec.facts[BLEND_JOBS])))


def _with_range(
    estimates: pd.DataFrame,
    raw: Floats,
    around: tuple[Floats, Floats],
    widen: Floats,
    elapsed_s: Floats,
) -> pd.DataFrame:
    low, high = (raw + widen * end for end in around)
    waits = elapsed_s == 0  # that a job runs says more than what others of its user took
    lower, upper = (estimates[name].to_numpy(np.float64) for name in ("lower", "upper"))
    return estimates.assign(
        lower=np.where(waits, np.minimum(lower, low), lower),
        upper=np.where(waits, np.maximum(upper, high), upper),
    )


def _raw(bundle: Bundle, rows: pd.DataFrame) -> Floats:
    return bundle.predict(rows[list(bundle.spec.features)].to_numpy(np.float64))


def _log(elapsed_s: Floats) -> Floats:
    return np.asarray(np.log(np.maximum(elapsed_s, 0), where=elapsed_s > 0, out=_never(elapsed_s)))


def _never(elapsed_s: Floats) -> Floats:
    return np.full(len(elapsed_s), -np.inf)


def _bounded(
    estimates: pd.DataFrame, rows: pd.DataFrame, elapsed_s: Floats, spec: ModelSpec
) -> pd.DataFrame:
    limit_s = np.exp(rows["limit_log"].to_numpy(np.float64)) * LIMIT_SLACK
    enforced = spec.facts.get(LIMIT_ENFORCED) == "yes"
    most = np.where(np.isnan(limit_s) | (not enforced), np.inf, limit_s)
    least = np.maximum(elapsed_s, spec.floor)
    # A job that runs beyond an enforced limit tells that it is not enforced on it.
    seconds = np.exp(estimates.to_numpy(np.float64))
    bounded = np.maximum(np.minimum(seconds, most[:, None]), least[:, None])
    return pd.DataFrame(bounded, index=estimates.index, columns=estimates.columns)


def _sources(user: Bundle | None, rows: pd.DataFrame) -> "pd.Series[str]":
    known = rows[[f"{level.name}_jobs" for level in CLUSTER_LEVELS]].gt(0).any(axis="columns")
    has_history = rows[["user_jobs", "user_started"]].gt(0).any(axis="columns")
    source = np.where(known, Source.CLUSTER_MODEL, Source.COLD_START)
    if user is not None:
        source = np.where(has_history, Source.USER_MODEL, source)
    return pd.Series(source.astype(object), index=rows.index, dtype="str")


def _without_model(rows: pd.DataFrame, elapsed_s: Floats) -> pd.DataFrame:
    least = np.maximum(elapsed_s, FLOOR_S)
    value = np.maximum(np.exp(rows[ANCHOR].to_numpy(np.float64)), least)
    return pd.DataFrame(
        {
            "value": value,
            "lower": np.maximum(value / NO_MODEL_FACTOR, least),
            "upper": value * NO_MODEL_FACTOR,
            "in_domain": False,
            "source": str(Source.COLD_START),
        },
        index=rows.index,
    )
