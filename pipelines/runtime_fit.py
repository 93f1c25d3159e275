"""Fit the two runtime models on jobs that have finished, and calibrate them on the newest."""

from collections.abc import Mapping
from dataclasses import dataclass

import lightgbm
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from data.errors import SettingError
from features.history import ANCHOR, CLUSTER_FEATURES, FLOOR_S, USER_FEATURES
from features.history_groups import history_groups
from features.requests import REQUEST_FEATURES
from serving.bundle import Bundle, Floats, ModelSpec
from serving.compiled import compiled
from serving.residuals import QUANTILES, residual_table, table_calibration
from serving.runtime import BLEND_JOBS, LIMIT_ENFORCED, LIMIT_SLACK, runtime_log

CLUSTER_MODEL = "colocast-runtime-cluster"
USER_MODEL = "colocast-runtime-user"
UNREGISTERED = "unregistered"
FEWEST_JOBS = 10
COVERAGE = 0.9
OUTSIDE_FACTOR = 1.5
NEWEST_SHARE = 0.2
ANYTHING = 1e300  # beyond every feature; JSON has no infinity
EXAMPLES = 5


@dataclass(frozen=True, slots=True)
class Boosting:
    """How the trees are grown, and how the user's correction is blended in.

    Attributes
    ----------
    cluster_trees, user_trees, leaves : int
    learning_rate, penalty : float
        `penalty` is the L2 penalty on leaf values, in rows.
    smallest_leaf : int
        Rows a leaf needs; a twentieth of all rows where that is fewer.
    blend_jobs : float
        Finished jobs of a user after which the correction counts half.
    """

    cluster_trees: int = 100
    user_trees: int = 60
    leaves: int = 8
    learning_rate: float = 0.05
    penalty: float = 50.0
    smallest_leaf: int = 200
    blend_jobs: float = 4.0


DEFAULT_BOOSTING = Boosting()


@dataclass(frozen=True, slots=True)
class FinishedRows:
    """Finished jobs as training rows, described by what was known before they ran.

    Attributes
    ----------
    features : DataFrame of shape (n, n_features)
        ``USER_FEATURES``.
    runtime_log : float64 array of shape (n,)
        Natural logarithm of the runtime (s).
    finish_time : float64 array of shape (n,), seconds since 1970 UTC
    """

    features: pd.DataFrame
    runtime_log: Floats
    finish_time: Floats

    def __len__(self) -> int:
        return len(self.finish_time)

    def where(self, mask: NDArray[np.bool_]) -> "FinishedRows":
        """Return the rows where a mask of shape (n,) holds."""
        return FinishedRows(self.features[mask], self.runtime_log[mask], self.finish_time[mask])


@dataclass(frozen=True, slots=True)
class RuntimeModels:
    """Both models, fitted on all rows, and what they were calibrated and judged on.

    Attributes
    ----------
    cluster, user : Bundle
        Not registered yet; predict with ``serving.runtime.runtime_estimates``.
    judged : FinishedRows
        The newest jobs, which neither `early` models nor their calibration have seen.
    early : tuple of Bundle
        Cluster and user model fitted on the older jobs, calibrated on those between.
    """

    cluster: Bundle
    user: Bundle
    judged: FinishedRows
    early: tuple[Bundle, Bundle]


def fitted_models(
    rows: FinishedRows, seed: int, boosting: Boosting = DEFAULT_BOOSTING
) -> RuntimeModels:
    """Fit and calibrate the cluster model and the user model.

    They are fitted on the jobs that finished first and calibrated on the newest fifth; then
    they are fitted again on all, and keep that calibration.

    Parameters
    ----------
    rows : FinishedRows
    seed : int
    boosting : Boosting

    Returns
    -------
    RuntimeModels

    Raises
    ------
    SettingError
        With fewer than ten finished jobs.
    """
    if len(rows) < FEWEST_JOBS:
        wanted = f"at least {FEWEST_JOBS}; until then every answer is a cold start"
        raise SettingError(f"found {len(rows)} finished jobs to learn runtimes, wanted {wanted}")
    old, held_out = _divided(rows, NEWEST_SHARE)
    between, judged = _divided(held_out, 0.5)
    boosters = _boosters(old, seed, boosting)
    facts = _facts(rows, boosting)
    early = _calibrated(boosters, boosters, old, between, facts)
    cluster, user = _calibrated(boosters, _boosters(rows, seed, boosting), rows, held_out, facts)
    return RuntimeModels(cluster, user, judged, early)


def _divided(rows: FinishedRows, share: float) -> tuple[FinishedRows, FinishedRows]:
    newest = rows.finish_time >= np.quantile(rows.finish_time, 1 - share)
    return rows.where(~newest), rows.where(newest)


def _calibrated(
    fitted: tuple[lightgbm.Booster, lightgbm.Booster],
    served: tuple[lightgbm.Booster, lightgbm.Booster],
    rows: FinishedRows,
    held_out: FinishedRows,
    facts: Mapping[str, str],
) -> tuple[Bundle, Bundle]:
    cluster, user = (_bundle(booster, held_out, _flat(), facts) for booster in fitted)
    alone = _residuals(held_out, runtime_log(cluster, None, held_out.features))
    together = _residuals(held_out, runtime_log(cluster, user, held_out.features))
    return _bundle(served[0], rows, alone, facts), _bundle(served[1], rows, together, facts)


def _boosters(
    rows: FinishedRows, seed: int, boosting: Boosting
) -> tuple[lightgbm.Booster, lightgbm.Booster]:
    anchor = rows.features[ANCHOR].to_numpy()
    params = _params(len(rows), seed, boosting)
    inputs = rows.features[list(CLUSTER_FEATURES)].to_numpy(np.float32)
    cluster = _booster(inputs, rows.runtime_log, anchor, params, boosting.cluster_trees)
    start = anchor + cluster.predict(inputs, num_threads=1)
    inputs = rows.features[list(USER_FEATURES)].to_numpy(np.float32)
    return cluster, _booster(inputs, rows.runtime_log, start, params, boosting.user_trees)


def _booster(
    inputs: NDArray[np.float32],
    target: Floats,
    start: Floats,
    params: Mapping[str, float | str],
    trees: int,
) -> lightgbm.Booster:
    data = lightgbm.Dataset(inputs, target, init_score=start, params=dict(params))
    return lightgbm.train(dict(params), data, num_boost_round=trees)


def _params(n_rows: int, seed: int, boosting: Boosting) -> dict[str, float | str]:
    return {
        "objective": "regression",
        "num_leaves": boosting.leaves,
        "learning_rate": boosting.learning_rate,
        "min_data_in_leaf": max(2, min(boosting.smallest_leaf, n_rows // 20)),
        "lambda_l2": boosting.penalty,
        "feature_fraction": 0.5,
        "bagging_fraction": 0.5,
        "bagging_freq": 1,
        "max_bin": 63,
        "seed": seed,
        "deterministic": "true",
        "force_row_wise": "true",
        "num_threads": 2,
        "verbosity": -1,
    }


def _flat() -> pd.DataFrame:
    return residual_table(np.zeros(1), pd.Series(["0"]))


def _residuals(rows: FinishedRows, predicted: Floats) -> pd.DataFrame:
    return residual_table(rows.runtime_log - predicted, history_groups(rows.features))


def _facts(rows: FinishedRows, boosting: Boosting) -> dict[str, str]:
    over = rows.runtime_log - rows.features["limit_log"].to_numpy() > np.log(LIMIT_SLACK)
    return {
        "rows": str(len(rows)),
        BLEND_JOBS: str(boosting.blend_jobs),
        # One in a thousand is how often a node dies while its job is being killed.
        LIMIT_ENFORCED: "yes" if over.mean() <= 1e-3 else "no",
    }


def _bundle(
    booster: lightgbm.Booster,
    rows: FinishedRows,
    table: pd.DataFrame,
    facts: Mapping[str, str],
) -> Bundle:
    is_cluster = booster.num_feature() == len(CLUSTER_FEATURES)
    name, names = (CLUSTER_MODEL, CLUSTER_FEATURES) if is_cluster else (USER_MODEL, USER_FEATURES)
    predict = compiled(booster)
    inputs = rows.features[list(names)].to_numpy(np.float64)[:EXAMPLES]
    spec = ModelSpec(
        name=name,
        features=names,
        scale="log",
        calibration=table_calibration(table, COVERAGE, OUTSIDE_FACTOR),
        low=_range(rows.features[list(names)].min(), -ANYTHING),
        high=_range(rows.features[list(names)].max(), ANYTHING),
        floor=FLOOR_S,
        example_rows=tuple(tuple(_or_none(v) for v in row) for row in inputs.tolist()),
        example_values=tuple(predict(inputs).tolist()),
        facts=facts,
    )
    return Bundle(spec, f"{name}/{UNREGISTERED}", predict, booster, {QUANTILES: table})


def _range(ends: "pd.Series[float]", anything: float) -> dict[str, float]:
    # History drifts by nature; only an unusual request lies outside what was learnt.
    asked = set(REQUEST_FEATURES)
    return {
        str(name): float(end) if name in asked else anything
        for name, end in ends.items()
        if name not in asked or not np.isnan(end)
    }


def _or_none(value: float) -> float | None:
    return None if np.isnan(value) else value
