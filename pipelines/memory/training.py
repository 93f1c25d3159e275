"""Train the memory model, and report what it is worth before anyone asks it."""

from collections.abc import Mapping
from dataclasses import asdict, replace

import numpy as np
import pandas as pd
from sklearn.pipeline import Pipeline

from features.memory_terms import memory_features, term_of
from pipelines.conformal import LEVEL, cross_intervals
from pipelines.labelling.from_runs import usable
from pipelines.memory.calibration import (
    MIN_ROWS,
    calibrated_memory_bundle,
    large_groups,
    log_residuals,
)
from pipelines.memory.fit import NAME, PEAK, QuadraticOptions
from pipelines.metrics import best_baseline, estimate_metrics
from pipelines.registering import figures
from pipelines.registering.report import (
    TrainingReport,
    flat_metrics,
    markdown_table,
    provenance_facts,
    splits_json,
)
from serving.inference.bundle import Bundle
from serving.inference.memory import framework_names

SLACK = 0.05
TERM_UNIT = "MiB by which the part of the answer differs between runs (standard deviation)"
TITLES = {"configuration": "new configurations", "extrapolation": "sizes beyond those learnt"}


def train_memory(
    memory_runs: pd.DataFrame, seed: int, options: QuadraticOptions | None = None
) -> tuple[Bundle, TrainingReport]:
    """Train ``colocast-memory``.

    Parameters
    ----------
    memory_runs : DataFrame, ``data.schemas.MEMORY_RUNS``
        At least five usable rows of at least two configurations; what ran out of memory or was
        not measured is left out.
    seed : int
    options : QuadraticOptions, optional

    Returns
    -------
    bundle : Bundle
        Not registered yet.
    report : TrainingReport
        Its metrics are of held-out rows: ``configuration_r2``, ``extrapolation_r2`` and others;
        each fold's intervals rest on the other folds.

    Raises
    ------
    SettingError
        If there are too few rows.
    """
    options = options or QuadraticOptions()
    runs = usable(memory_runs)
    bundle, held_out = calibrated_memory_bundle(runs, options, seed)
    facts = {**provenance_facts(runs), "frameworks": _frameworks(runs)}
    bundle = replace(bundle, spec=replace(bundle.spec, facts=facts))
    judged = {name: _with_intervals(rows, runs) for name, rows in held_out.items()}
    splits = [_split_row(name, rows, runs) for name, rows in judged.items()]
    return bundle, TrainingReport(
        params={**{name: str(value) for name, value in asdict(options).items()}, "seed": str(seed)},
        metrics=flat_metrics(splits),
        dataset=runs,
        dataset_name="memory_runs",
        card=_card(bundle, splits),
        figures=_figures(bundle, judged, runs),
        documents={"splits.json": splits_json(splits)},
    )


def _with_intervals(rows: pd.DataFrame, runs: pd.DataFrame) -> pd.DataFrame:
    """Return held-out estimates with the intervals that the other folds give."""
    value = rows["value"].to_numpy(np.float64)
    groups = large_groups(runs.iloc[rows.index], value)
    low, high = cross_intervals(log_residuals(rows), rows["fold"], groups, smallest=MIN_ROWS)
    return rows.assign(lower=value * np.exp(low), upper=value * np.exp(high))


def _split_row(split: str, rows: pd.DataFrame, runs: pd.DataFrame) -> dict[str, object]:
    observed = rows["peak"].to_numpy(np.float64)
    others = [runs[PEAK].drop(part.index).mean() for _, part in rows.groupby("fold")]
    sizes = [len(part) for _, part in rows.groupby("fold")]
    order = np.concatenate([part.index for _, part in rows.groupby("fold")])
    constant = pd.Series(np.repeat(others, sizes), index=order).reindex(rows.index)
    return {
        "split": split,
        **estimate_metrics(observed, rows, SLACK),
        **best_baseline(observed, {"constant": constant.to_numpy(np.float64)}),
        "in_domain_share": float(rows["in_domain"].mean()),
    }


def _figures(
    bundle: Bundle, judged: Mapping[str, pd.DataFrame], runs: pd.DataFrame
) -> dict[str, bytes]:
    drawn = {"importance.png": figures.importance(_term_weights(bundle, runs), NAME, TERM_UNIT)}
    for name, rows in judged.items():
        drawn |= _split_figures(name, rows.reset_index(drop=True), runs.iloc[rows.index])
    return drawn


def _split_figures(name: str, rows: pd.DataFrame, runs: pd.DataFrame) -> dict[str, bytes]:
    families = framework_names(runs["framework"]) + " " + runs["family"].astype("str")
    families = families.reset_index(drop=True)
    covered = rows["peak"].between(rows["lower"], rows["upper"]).to_numpy()
    title = f"GPU memory peak, {TITLES[name]}"
    return {
        f"predicted_{name}.png": figures.predicted_against_measured(
            rows.assign(observed=rows["peak"]), families, title, "memory (MiB)"
        ),
        f"residuals_{name}.png": figures.residuals_by_family(
            log_residuals(rows), families, title, "log(measured / predicted)"
        ),
        f"coverage_{name}.png": figures.coverage_by_group(covered, families, LEVEL, title),
    }


def _term_weights(bundle: Bundle, runs: pd.DataFrame) -> dict[str, float]:
    """Return by how many MiB a standard deviation of each term moves the answer."""
    estimator = bundle.estimator
    if not isinstance(estimator, Pipeline):
        return {}
    columns = list(bundle.spec.features)
    rows = memory_features(runs, columns).fillna(0.0).to_numpy(np.float64)
    parts = pd.DataFrame(rows * estimator["sum"].coef_, columns=[term_of(c) for c in columns])
    spread = parts.T.groupby(level=0).sum().std(axis="columns")
    return {str(name): float(value) for name, value in spread.items()}


def _frameworks(runs: pd.DataFrame) -> str:
    return ", ".join(sorted(set(framework_names(runs["framework"]))))


def _card(bundle: Bundle, splits: list[dict[str, object]]) -> str:
    shown = ["split", "n", "r2", "relative_error_median", "under_rate", "coverage_90"]
    table = markdown_table(pd.DataFrame(splits).reindex(columns=[*shown, "baseline_r2"]))
    facts = bundle.spec.facts
    return (
        f"# {NAME}\n\nThe peak GPU memory of a training job (MiB) from its structure: sizes of "
        "embeddings, weights, activations and batch, and products of two of them, each framework "
        "and family with coefficients of its own; non-negative ridge regression. Trained on "
        f"{facts['rows']} measured runs with {facts['frameworks']}. On rows that were held out:\n\n"
        f"{table}\n\n`configuration`: {TITLES['configuration']}. `extrapolation`: "
        f"{TITLES['extrapolation']}; each fifth of the model sizes in turn. `under_rate` is the "
        "share of runs that need more than 5 % above the upper bound, which is meant to hold for "
        "95 %. What a framework reserves for itself is learnt as a constant; of one that was never "
        "seen it is a guess.\n"
    )
