"""Fit the two runtime models on jobs that have finished, and calibrate them on the newest."""

from collections.abc import Mapping
from dataclasses import dataclass

import lightgbm
import numpy as np
import pandas as pd

from data.errors import SettingError
from features.history import CLUSTER_FEATURES, USER_FEATURES
from features.requests import REQUEST_FEATURES
from features.window_statistics import FLOOR_S
from pipelines.runtime.boosting import DEFAULT_BOOSTING, Boosting, boosted
from pipelines.runtime.calibration import HeldOut, drift
from pipelines.runtime.rows import FinishedRows, JobRows
from pipelines.runtime.user_widening import widening_table
from serving.forest.compiled import compiled
from serving.inference.bundle import Bundle, ModelSpec
from serving.inference.residuals import QUANTILES, residual_table, table_calibration
from serving.inference.runtime import BLEND_JOBS, LIMIT_ENFORCED, LIMIT_SLACK
from serving.inference.widening import WIDENING_TABLE

CLUSTER_MODEL = "colocast-runtime-cluster"
USER_MODEL = "colocast-runtime-user"
UNREGISTERED = "unregistered"
FEWEST_JOBS = 10
FEWEST_LIMITED = 100
COVERAGE = 0.9
OUTSIDE_FACTOR = 1.5
NEWEST_SHARE = 0.2
ANYTHING = 1e300  # beyond every feature; JSON has no infinity
EXAMPLES = 5
ASKED = list(REQUEST_FEATURES)


@dataclass(frozen=True, slots=True)
class RuntimeModels:
    """Both models, fitted on all jobs, and what they were calibrated and judged on.

    Attributes
    ----------
    cluster, user : Bundle
        Not registered yet; predict with ``serving.inference.runtime.runtime_estimates``.
    judged : JobRows
        The newest tenth, which neither the `early` models nor their calibration have seen.
    early : tuple of Bundle
        Cluster and user model fitted on the older jobs, calibrated on those between.
    """

    cluster: Bundle
    user: Bundle
    judged: JobRows
    early: tuple[Bundle, Bundle]


def fitted_models(rows: JobRows, seed: int, boosting: Boosting = DEFAULT_BOOSTING) -> RuntimeModels:
    """Fit and calibrate the cluster model and the user model.

    They are fitted on the jobs that finished first and calibrated on the newest fifth, widened
    by as much as the newest tenth has drifted from those before; then they are fitted again on
    all, and keep that calibration.

    Parameters
    ----------
    rows : JobRows
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
    old, held_out = rows.divided(NEWEST_SHARE)
    held_out = held_out.by_finish_time()
    is_judged = held_out.newest(0.5)
    # Whether limits are enforced the judged jobs must not tell those that are judged on them.
    facts, before = (_facts(part.at_start, boosting) for part in (rows, old))
    boosters = boosted(old.at_start, seed, boosting)
    final = boosted(rows.at_start, seed, boosting)
    raw = [_bundle(booster, old.at_start, {QUANTILES: _flat()}, before) for booster in boosters]
    early, served = [], []
    for layer, user in enumerate((None, raw[1])):
        told = HeldOut.of(held_out, raw[0], user)
        older = told.where(~is_judged)
        table = older.table()
        widening = drift(table, told.where(is_judged), COVERAGE)
        newest = told.table(widening)
        early.append(_bundle(boosters[layer], old.at_start, _tables(table, older, user), before))
        noted = {**facts, "drift": f"{widening:.3f}"}
        served.append(_bundle(final[layer], rows.at_start, _tables(newest, told, user), noted))
    return RuntimeModels(served[0], served[1], held_out.where(is_judged), (early[0], early[1]))


def _tables(table: pd.DataFrame, told: HeldOut, user: Bundle | None) -> dict[str, pd.DataFrame]:
    if user is None:  # a cluster model tells no user from another
        return {QUANTILES: table}
    return {QUANTILES: table, WIDENING_TABLE: widening_table(table, told, COVERAGE)}


def _flat() -> pd.DataFrame:
    return residual_table(np.zeros(1), pd.Series(["none"]))


def _facts(rows: FinishedRows, boosting: Boosting) -> dict[str, str]:
    limit_log = rows.features["limit_log"].to_numpy(np.float64)
    over = (rows.runtime_log - limit_log)[~np.isnan(limit_log)] > np.log(LIMIT_SLACK)
    return {
        "rows": str(len(rows)),
        BLEND_JOBS: str(boosting.blend_jobs),
        # One in a thousand is how often a node dies while its job is being killed.
        LIMIT_ENFORCED: "yes" if len(over) >= FEWEST_LIMITED and over.mean() <= 1e-3 else "no",
    }


def _bundle(
    booster: lightgbm.Booster,
    rows: FinishedRows,
    tables: Mapping[str, pd.DataFrame],
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
        calibration=table_calibration(tables[QUANTILES], COVERAGE, OUTSIDE_FACTOR),
        low={**dict.fromkeys(names, -ANYTHING), **_range(rows.features[ASKED].min())},
        high={**dict.fromkeys(names, ANYTHING), **_range(rows.features[ASKED].max())},
        floor=FLOOR_S,
        example_rows=tuple(tuple(_or_none(v) for v in row) for row in inputs.tolist()),
        example_values=tuple(predict(inputs).tolist()),
        facts=facts,
    )
    return Bundle(spec, f"{name}/{UNREGISTERED}", predict, booster, tables)


def _range(ends: "pd.Series[float]") -> dict[str, float]:
    # History drifts by nature, so only an unusual request counts as outside what was learnt.
    # What no job ever stated is left open as well: stating it is not unusual in itself.
    return {str(name): float(end) for name, end in ends.items() if not np.isnan(end)}


def _or_none(value: float) -> float | None:
    return None if np.isnan(value) else value
