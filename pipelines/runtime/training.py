"""Train the two runtime models from finished jobs."""

from collections.abc import Mapping
from dataclasses import asdict, replace

import numpy as np
import pandas as pd

from features.history_groups import history_groups
from pipelines.registering.report import TrainingReport, markdown_table, provenance_facts
from pipelines.runtime.boosting import DEFAULT_BOOSTING
from pipelines.runtime.figures import (
    coverage_by_history,
    layers_by_history,
    predicted_against_measured,
)
from pipelines.runtime.fit import COVERAGE, RuntimeModels, fitted_models
from pipelines.runtime.metrics import runtime_metrics
from pipelines.runtime.rows import job_rows
from serving.inference.bundle import Bundle
from serving.inference.runtime import runtime_estimates


def train_runtime(
    jobs: pd.DataFrame, seed: int
) -> tuple[Bundle, Bundle, TrainingReport, TrainingReport]:
    """Train ``colocast-runtime-cluster`` and ``colocast-runtime-user``.

    Parameters
    ----------
    jobs : DataFrame, ``data.schemas.JOBS``
        At least ten.
    seed : int

    Returns
    -------
    cluster, user : Bundle
        Not registered yet.
    cluster_report, user_report : TrainingReport
        Metrics ``newest_*`` are of the newest tenth of the jobs, predicted at their start by
        models that were fitted and calibrated on older ones.

    Notes
    -----
    Rows describe jobs at their start, when the decision falls and when those of the same batch
    that started first may have finished. On DRAC that predicts as well at submission as rows of
    the submission do, and much better at the start.

    Raises
    ------
    SettingError
        With fewer than ten jobs.
    """
    models = fitted_models(job_rows(jobs), seed)
    facts = provenance_facts(jobs)
    cluster, user = (_with_facts(bundle, facts) for bundle in (models.cluster, models.user))
    early_cluster, early_user = models.early
    layers = {
        "cluster model": _judged(models, early_cluster, None),
        "and the user's correction": _judged(models, early_cluster, early_user),
    }
    reports = [
        _report(jobs, bundle, models, layers, told)
        for bundle, told in zip((cluster, user), layers, strict=True)
    ]
    return cluster, user, reports[0], reports[1]


def _judged(models: RuntimeModels, cluster: Bundle, user: Bundle | None) -> pd.DataFrame:
    features = models.judged.at_start.features
    return runtime_estimates(cluster, user, features, np.zeros(len(features)))


def _with_facts(bundle: Bundle, facts: dict[str, str]) -> Bundle:
    spec = replace(bundle.spec, facts={**bundle.spec.facts, **facts})
    return replace(bundle, spec=spec)


def _report(
    jobs: pd.DataFrame,
    bundle: Bundle,
    models: RuntimeModels,
    layers: Mapping[str, pd.DataFrame],
    told: str,
) -> TrainingReport:
    estimates = layers[told]
    runtime_s = np.exp(models.judged.at_start.runtime_log)
    metrics = runtime_metrics(runtime_s, estimates)
    covered = estimates["lower"].le(runtime_s) & estimates["upper"].ge(runtime_s)
    groups = history_groups(models.judged.at_start.features)
    return TrainingReport(
        params={name: str(value) for name, value in asdict(DEFAULT_BOOSTING).items()},
        metrics={f"newest_{k}": float(v) for k, v in metrics.items() if v is not None},
        dataset=jobs,
        dataset_name="jobs",
        card=_card(bundle, metrics),
        figures={
            "predicted_against_measured.png": predicted_against_measured(
                runtime_s, estimates, f"{bundle.spec.name}: the newest jobs"
            ),
            "coverage_by_history.png": coverage_by_history(covered.to_numpy(), groups, COVERAGE),
            "layers_by_history.png": layers_by_history(runtime_s, layers, groups),
        },
    )


def _card(bundle: Bundle, metrics: dict[str, float | int | None]) -> str:
    table = markdown_table(pd.DataFrame([metrics]))
    return (
        f"# {bundle.spec.name}\n\nHow long a job will run, told at its submission; LightGBM on "
        f"log runtime with a 90 % conformal interval. Trained on {bundle.spec.facts['rows']} "
        "finished jobs. On the newest tenth of them, predicted by a model that was fitted and "
        f"calibrated on older ones:\n\n{table}\n"
    )
