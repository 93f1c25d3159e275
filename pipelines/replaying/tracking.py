"""A comparison of policies as a run in MLflow."""

import json
import math
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mlflow import MlflowClient
from mlflow.entities import Metric, Param
from mlflow.utils.time import get_current_time_millis

from pipelines.registering.errors import registry_errors
from pipelines.registering.mlflow_quiet import silence
from pipelines.registering.run_log import started_run
from pipelines.replaying.result import Result
from pipelines.replaying.tables import metrics_table

EXPERIMENT = "colocast-replay"
SQLITE = "sqlite"
BATCH = 1000  # metrics, MLflow's limit for one request


@dataclass(frozen=True, slots=True)
class Comparison:
    """What is logged of one comparison.

    Attributes
    ----------
    results : mapping of str to Result
        By policy.
    params : mapping of str to str
        What was replayed: trace, cluster, model, seed.
    page : str
        HTML.
    figures : mapping of str to bytes
        PNG by file name.
    """

    results: Mapping[str, Result]
    params: Mapping[str, str]
    page: str
    figures: Mapping[str, bytes]


def logged_comparison(comparison: Comparison, tracking_uri: str, artifacts_path: Path) -> str:
    """Log a comparison as one run of the experiment ``colocast-replay``; return the run's id.

    Metrics are called ``<policy>.<metric>``; the page, the pictures and ``metrics.json`` are
    artifacts. A new experiment of a local store keeps its files under `artifacts_path`.

    Raises
    ------
    RegistryError
        If MLflow is out of reach now.
    """
    silence()
    local = artifacts_path if tracking_uri.startswith(SQLITE) else None
    with registry_errors(tracking_uri, "log the replay"):
        client = MlflowClient(tracking_uri, tracking_uri)
        run_id = started_run(client, EXPERIMENT, local, None)
        found = _metrics(comparison.results)
        for at in range(0, len(found), BATCH):
            client.log_batch(run_id, metrics=found[at : at + BATCH])
        params = [Param(name, value) for name, value in comparison.params.items()]
        client.log_batch(run_id, params=params)
        with tempfile.TemporaryDirectory(prefix="colocast-") as folder:
            _write_files(Path(folder), comparison)
            client.log_artifacts(run_id, folder)
        client.set_terminated(run_id)
    return run_id


def _metrics(results: Mapping[str, Result]) -> list[Metric]:
    now = get_current_time_millis()
    table = metrics_table(results)
    return [
        Metric(f"{policy}.{metric}", float(value), now, 0)
        for policy in table.columns
        for metric, value in table[policy].items()
        if math.isfinite(value)
    ]


def _write_files(folder: Path, comparison: Comparison) -> None:
    (folder / "figures").mkdir()
    for name, png in comparison.figures.items():
        (folder / "figures" / name).write_bytes(png)
    (folder / "page.html").write_text(comparison.page, "utf-8")
    found = {name: result.metrics for name, result in comparison.results.items()}
    (folder / "metrics.json").write_text(json.dumps(found, indent=2) + "\n")
