"""Train the demand model, and report what it is worth before anyone asks it."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace

import numpy as np
import pandas as pd
from sklearn.ensemble import RandomForestRegressor

from pipelines.conformal import LEVEL, cross_intervals
from pipelines.demand.calibration import calibrated_demand_bundle
from pipelines.demand.fit import (
    NAME,
    DemandOptions,
    measured_signals,
    scaled_residuals,
)
from pipelines.demand.metrics import demand_rows, named_with_unit
from pipelines.registering import figures
from pipelines.registering.report import (
    TrainingReport,
    flat_metrics,
    markdown_table,
    provenance_facts,
    splits_json,
)
from serving.inference.bundle import Bundle
from serving.inference.demand import Signal, family_names

MOST_DRAWN = 4  # signals with a picture of their own


def train_demand(
    memory_runs: pd.DataFrame, seed: int, options: DemandOptions | None = None
) -> tuple[Bundle, TrainingReport]:
    """Train ``colocast-demand``.

    Parameters
    ----------
    memory_runs : DataFrame, ``data.schemas.MEMORY_RUNS``
        At least five rows of two configurations that ended well and hold signals.
    seed : int
    options : DemandOptions, optional

    Returns
    -------
    bundle : Bundle
        Not registered yet.
    report : TrainingReport
        Its metrics are of held-out configurations: ``configuration_r2``, the mean over the
        signals, ``configuration:<signal>_r2`` and others; each fold's intervals rest on the
        other folds.

    Raises
    ------
    SettingError
        If there are too few rows.
    """
    options = options or DemandOptions()
    runs, signals = measured_signals(memory_runs)
    bundle, held_out = calibrated_demand_bundle(runs, signals, options, seed)
    facts = {**provenance_facts(runs), "signals": ", ".join(signal.name for signal in signals)}
    bundle = replace(bundle, spec=replace(bundle.spec, facts=facts))
    families = family_names(runs)
    judged = {s.name: _with_intervals(held_out[s.name], s, families) for s in signals}
    splits = demand_rows("configuration", judged, runs["family"])
    return bundle, TrainingReport(
        params={**{name: str(value) for name, value in asdict(options).items()}, "seed": str(seed)},
        metrics={_metric_name(name): v for name, v in flat_metrics(splits).items()},
        dataset=runs,
        dataset_name="memory_runs",
        card=_card(bundle, splits),
        figures=_figures(bundle, judged, runs, signals),
        documents={"splits.json": splits_json(splits)},
    )


def _metric_name(name: str) -> str:
    return name.replace(":", "/")  # MLflow allows no colon, and groups by slashes


def _with_intervals(rows: pd.DataFrame, signal: Signal, families: pd.Series) -> pd.DataFrame:
    """Return held-out estimates with the intervals that the other folds give."""
    spread = rows["spread"].to_numpy(np.float64)
    groups = families.iloc[rows.index].reset_index(drop=True)
    found = cross_intervals(scaled_residuals(rows, signal) / spread, rows["fold"], [groups])
    low, high = (end * spread for end in found)
    value = rows["value"].to_numpy(np.float64)
    if signal.is_log:
        bounds = [np.expm1(np.log1p(value) + end * signal.scale) for end in (low, high)]
    else:
        bounds = [value + end * signal.scale for end in (low, high)]
    return rows.assign(lower=np.maximum(bounds[0], 0.0), upper=bounds[1])


def _figures(
    bundle: Bundle,
    judged: Mapping[str, pd.DataFrame],
    runs: pd.DataFrame,
    signals: Sequence[Signal],
) -> dict[str, bytes]:
    drawn = {}
    if isinstance(bundle.estimator, RandomForestRegressor):
        weights = bundle.estimator.feature_importances_
        named = dict(zip(bundle.spec.features, weights, strict=True))
        drawn["importance.png"] = figures.importance(named, f"{NAME}: what the forest splits on")
    families = runs["family"].astype("str")
    covered = pd.concat(
        [frame["observed"].between(frame["lower"], frame["upper"]) for frame in judged.values()]
    )
    names = pd.Series(np.repeat(list(judged), [len(frame) for frame in judged.values()]))
    drawn["coverage.png"] = figures.coverage_by_group(
        covered.to_numpy(), names, LEVEL, "Predicted profiles of new configurations"
    )
    means = [signal for signal in signals if signal.name.endswith("_mean")][:MOST_DRAWN]
    for signal in means:
        drawn |= _signal_figures(signal, judged[signal.name], families)
    return drawn


def _signal_figures(signal: Signal, rows: pd.DataFrame, families: pd.Series) -> dict[str, bytes]:
    families = families.iloc[rows.index].reset_index(drop=True)
    rows = rows.reset_index(drop=True)
    title = f"{signal.name} of new configurations"
    errors = scaled_residuals(rows, signal)
    return {
        f"predicted_{signal.name}.png": figures.predicted_against_measured(
            rows, families, title, named_with_unit(signal.name)
        ),
        f"residuals_{signal.name}.png": figures.residuals_by_family(
            errors, families, title, "measured - predicted, in standard deviations of the signal"
        ),
    }


def _card(bundle: Bundle, splits: list[dict[str, object]]) -> str:
    shown = ["split", "n", "r2", "mae", "coverage_90", "baseline_r2"]
    table = markdown_table(pd.DataFrame(splits).reindex(columns=shown))
    return (
        f"# {NAME}\n\nThe profile of a job before it ever ran, from its structure: what a device "
        "counter would show on average, and how much it would vary. A random forest. Trained on "
        f"{bundle.spec.facts['rows']} measured runs. On configurations that were held out, all "
        f"signals together and one by one:\n\n{table}\n\nA measured profile is always better: "
        "this one says what to expect until there is one.\n"
    )
