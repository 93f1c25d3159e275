"""Train the interference model, and report what it is worth before anyone asks it."""

from collections.abc import Mapping
from dataclasses import asdict, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestRegressor

from pipelines.conformal import LEVEL
from pipelines.conformal_groups import cross_group_intervals
from pipelines.interference.baselines import baseline_estimates
from pipelines.interference.calibration import (
    NEW_FAMILY_TAILS,
    calibrated_bundle,
    possible_folds,
    residuals,
)
from pipelines.interference.fit import NAME, ForestOptions, InterferenceData, uncalibrated_bundle
from pipelines.interference.metrics import split_row
from pipelines.interference.thinning import thinned
from pipelines.labelling.audit import Audit
from pipelines.labelling.audit_noise import Noise
from pipelines.metrics import r2
from pipelines.registering import figures
from pipelines.registering.report import (
    TrainingReport,
    flat_metrics,
    markdown_table,
    provenance_facts,
    splits_json,
)
from serving.inference.bundle import Bundle
from serving.inference.interference import NEW_FAMILY, slowdown_estimates

SHARES = (0.2, 0.4, 0.6, 0.8, 1.0)  # of the training rows, in the learning curve
TITLES = {
    "pair": "new pairs of profiled jobs",
    "family_pair": "jobs whose families are new to each other",
    "configuration": "jobs whose configuration is new",
    "family": "jobs whose family is new",
}


def train_interference(
    labels: pd.DataFrame,
    profiles: pd.DataFrame,
    seed: int,
    audit: Audit | None = None,
    options: ForestOptions | None = None,
) -> tuple[Bundle, TrainingReport]:
    """Train ``colocast-interference``.

    Parameters
    ----------
    labels : DataFrame, ``data.schemas.LABELS``
        Audited; at least ten rows of at least two pairs. More than ``MOST_LABELS`` are thinned.
    profiles : DataFrame, ``data.schemas.PROFILES``
        Of every job key in `labels`, and of any others.
    seed : int
    audit : Audit, optional
        Where the labels come from: gives the floor, the noise and the report. Without it, and
        where a label is lower, the floor is the lowest label, or 1.
    options : ForestOptions, optional

    Returns
    -------
    bundle : Bundle
        Not registered yet.
    report : TrainingReport
        Its metrics are of held-out rows: ``pair_r2``, ``configuration_r2``, ``family_r2`` and
        the others of `estimate_metrics`; each fold's intervals rest on the other folds. How
        effects are shared, how far the forest is trusted and which rows the audit keeps have
        seen all of them: on Lucid R² is better for it by 0.003 (pair), 0.01 (pair of families) and
        0.03 (configuration and family). `evaluate_interference` learns these, too, without what it
        holds out.

    Raises
    ------
    SettingError
        With fewer than ten labels, or of a single pair.
    UnknownProfileError
        If a labelled job has no profile.
    """
    options = options or ForestOptions()
    floor = audit.noise.floor if audit else 1.0
    learnt = thinned(labels, seed).reset_index(drop=True)
    data = InterferenceData(learnt, profiles, floor)
    bundle, held_out = calibrated_bundle(data, options, seed)
    facts = {
        **provenance_facts(labels),
        "learnt_rows": str(len(learnt)),
        "floor": f"{bundle.spec.floor:.4f}",
        "job_keys": _count(labels),
    }
    bundle = replace(bundle, spec=replace(bundle.spec, facts=facts))
    families = data.labels["family"].to_numpy(dtype=str)
    judged = {
        kind: _with_intervals(kind, rows, families[rows.index], options)
        for kind, rows in held_out.items()
    }
    noise = audit.noise if audit else None
    splits = []
    for kind, rows in judged.items():
        trivial = baseline_estimates(data, possible_folds(kind, data.labels, options.folds, seed))
        splits.append(split_row(kind, rows, trivial, noise))
    return bundle, TrainingReport(
        params={**{name: str(value) for name, value in asdict(options).items()}, "seed": str(seed)},
        metrics=flat_metrics(splits),
        dataset=labels,
        dataset_name="labels",
        card=_card(bundle, splits),
        figures=_figures(bundle, data, judged, noise) | _learning(data, options, seed),
        documents={"splits.json": splits_json(splits), **_audit_document(audit)},
    )


def interference_values(
    labels: pd.DataFrame,
    profiles: pd.DataFrame,
    seed: int,
    audit: Audit | None = None,
    options: ForestOptions | None = None,
) -> Bundle:
    """Return the model that `train_interference` makes, with its values and without intervals.

    Calibration fits a forest for each fold of each kind of novelty: this takes a third of the time.

    Parameters
    ----------
    labels, profiles, seed, audit, options
        As there.
    """
    floor = audit.noise.floor if audit else 1.0
    learnt = thinned(labels, seed).reset_index(drop=True)
    data = InterferenceData(learnt, profiles, floor)
    return uncalibrated_bundle(data, options or ForestOptions(), seed)


def _with_intervals(
    kind: str, rows: pd.DataFrame, families: NDArray[np.str_], options: ForestOptions
) -> pd.DataFrame:
    """Return held-out estimates with the intervals that the other folds give."""
    found, folds = residuals(rows, options.scale), rows["fold"].to_numpy(dtype=str)
    tails = NEW_FAMILY_TAILS if kind == NEW_FAMILY else None
    low, high = cross_group_intervals(found, folds, families, tails)
    value = rows["value"].to_numpy(np.float64)
    if options.scale == "log":
        return rows.assign(lower=value * np.exp(low), upper=value * np.exp(high))
    return rows.assign(lower=value + low, upper=value + high)


def _figures(
    bundle: Bundle, data: InterferenceData, judged: Mapping[str, pd.DataFrame], noise: Noise | None
) -> dict[str, bytes]:
    forest = bundle.estimator
    noise_sd = noise.label_sd if noise and noise.is_measured else 0.0
    drawn = {"slowdown_heat_map.png": figures.slowdown_heat_map(data.labels, "Measured slowdowns")}
    if isinstance(forest, RandomForestRegressor):
        weights = dict(zip(bundle.spec.features, forest.feature_importances_, strict=True))
        drawn["importance.png"] = figures.importance(weights, f"{NAME}: what the forest splits on")
    for kind, rows in judged.items():
        drawn |= _kind_figures(kind, rows, data.labels.iloc[rows.index], noise_sd)
    return drawn


def _kind_figures(
    kind: str, rows: pd.DataFrame, labels: pd.DataFrame, noise_sd: float
) -> dict[str, bytes]:
    families = labels["family"].astype("str").reset_index(drop=True)
    rows = rows.reset_index(drop=True).rename(columns={"slowdown": "observed"})
    errors = np.log((rows["observed"] / rows["value"]).to_numpy(np.float64))
    covered = rows["observed"].between(rows["lower"], rows["upper"]).to_numpy()
    title = f"Slowdown, {TITLES[kind]}"
    return {
        f"predicted_{kind}.png": figures.predicted_against_measured(
            rows, families, title, "slowdown", noise_sd
        ),
        f"residuals_{kind}.png": figures.residuals_by_family(
            errors, families, title, "log(measured / predicted)"
        ),
        f"coverage_{kind}.png": figures.coverage_by_group(covered, families, LEVEL, title),
    }


def _learning(data: InterferenceData, options: ForestOptions, seed: int) -> dict[str, bytes]:
    """Draw how R² on a fifth of the pairs grows with the rows learnt from."""
    folds = possible_folds("pair", data.labels, options.folds, seed)
    if not folds:
        return {}
    train, test = folds[0].train, folds[0].test
    order = np.random.default_rng(seed).permutation(train)
    asked = data.labels.iloc[test]
    sizes, scores = [], []
    for share in SHARES:
        rows = np.sort(order[: max(2, round(share * len(order)))])
        estimates = slowdown_estimates(
            uncalibrated_bundle(data.of_rows(rows), options, seed), asked
        )
        score = r2(asked["slowdown"].to_numpy(np.float64), estimates["value"].to_numpy(np.float64))
        sizes.append(len(rows))
        scores.append(np.nan if score is None else score)
    curve = figures.learning_curve(sizes, {"new pairs": scores}, f"{NAME}: more pairs, better?")
    return {"learning_curve.png": curve}


def _audit_document(audit: Audit | None) -> dict[str, str]:
    if audit is None:
        return {}
    found = audit.reasons().reset_index()
    reasons = markdown_table(found) if len(found) else "Nothing was quarantined or flagged."
    noise = markdown_table(pd.DataFrame([asdict(audit.noise)]))
    kept = f"{len(audit.labels)} labels kept, {len(audit.quarantine)} quarantined."
    return {"audit.md": f"# Label audit\n\n{kept}\n\n{reasons}\n\n## Noise\n\n{noise}\n"}


def _count(labels: pd.DataFrame) -> str:
    return str(labels["job_key"].nunique())


def _card(bundle: Bundle, splits: list[dict[str, object]]) -> str:
    shown = ["split", "n", "r2", "mae", "under_rate", "coverage_90", "width_90_median"]
    table = markdown_table(
        pd.DataFrame(splits).reindex(columns=[*shown, "baseline_r2", "ceiling_r2"])
    )
    facts = bundle.spec.facts
    return (
        f"# {NAME}\n\nHow much a job slows down beside a neighbour on one card: JCT colocated / "
        "JCT exclusive. A random forest on both jobs' exclusive profiles and the physics of the "
        f"pair. Trained on {facts['rows']} audited labels of {facts['job_keys']} job keys; no "
        f"answer lies below {facts['floor']}. On rows that were held out:\n\n{table}\n\n"
        f"`pair`: {TITLES['pair']}. `configuration`: {TITLES['configuration']}, unseen on both "
        f"sides. `family`: {TITLES['family']}. Intervals are calibrated apart for the three. "
        "The audit, and some twenty numbers that say how effects are shared, have seen the rows "
        "held out here; in `colocast evaluate interference` they have not. "
        f"It knows device counters only: not what a job's input pipeline or network does.\n"
    )
