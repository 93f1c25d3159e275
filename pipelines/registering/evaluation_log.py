"""One MLflow run of an evaluation: rows of metrics as metrics, and pictures of the answers."""

import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from mlflow import MlflowClient
from mlflow.entities import Metric, Param
from mlflow.utils.time import get_current_time_millis

from data.settings import Settings
from pipelines.judged import GIVEN, RUNTIME, Judged
from pipelines.registering import figures, score_figures
from pipelines.registering.errors import registry_errors
from pipelines.registering.mlflow_evaluation import evaluated_by_mlflow
from pipelines.registering.mlflow_quiet import silence
from pipelines.registering.provenance import code_version
from pipelines.registering.report import flat_metrics
from pipelines.registering.run_log import LONGEST_PARAM, started_run
from pipelines.runtime import figures as runtime_figures
from serving.inference.bundle import Floats

EXPERIMENT = "colocast-evaluation"
LEVEL = 0.9
TINY = 1e-9
MOST_METRICS = 1000  # that MLflow takes at once
HELD_OUT = {
    "pair": "pairs of profiled jobs",
    "family_pair": "pairs of families",
    "configuration": "configurations",
    "family": "families",
    "extrapolation": "each fifth of the sizes",
    GIVEN: "the given test set",
}
"""What each way of holding out keeps from the model, in titles."""
JOBS = {"all": "all jobs", "gpu": "GPU jobs"}
MOMENTS = {"": "at submission", "start": "at the start", "1h": "after an hour of running"}
_SQLITE = "sqlite:///"
MODEL_TAG, NAME_TAG = "colocast.model", "mlflow.runName"

Rows = Sequence[Mapping[str, object]]


def has_store(settings: Settings) -> bool:
    """Return whether the installation has a tracking store: a server, or a file that is there."""
    uri = settings.tracking_uri
    return not uri.startswith(_SQLITE) or Path(uri.removeprefix(_SQLITE)).is_file()


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What was asked and found.

    Attributes
    ----------
    model : str
        ``memory``, …
    rows : sequence of mapping
        As ``colocast evaluate`` writes them.
    judged : sequence of Judged
    params : mapping of str to str
        What was asked.
    """

    model: str
    rows: Rows
    judged: Sequence[Judged]
    params: Mapping[str, str]


def log_evaluation(settings: Settings, found: Evaluation) -> str:
    """Log an evaluation in the experiment ``colocast-evaluation``, and return the run's id.

    Raises
    ------
    RegistryError
        If the store cannot be written; the run is then marked as failed.
    """
    silence()
    uri = settings.tracking_uri
    with registry_errors(uri, f"log the evaluation of {found.model}"):
        client = MlflowClient(tracking_uri=uri)
        place = settings.artifacts_path if uri.startswith(_SQLITE) else None
        run_id = started_run(client, EXPERIMENT, place, None)
        status = "FAILED"
        try:
            _log(client, run_id, found)
            evaluated_by_mlflow(uri, run_id, found.judged)
            status = "FINISHED"
        finally:
            client.set_terminated(run_id, status)
    return run_id


def drawn(found: Evaluation) -> dict[str, bytes]:
    """Return the pictures of an evaluation, file name to PNG."""
    own, is_log = _own(found.rows), any(one.unit == RUNTIME for one in found.judged)
    pictures = {
        "scores.png": score_figures.scores(own, f"{found.model}: how much is told", is_log=is_log),
        "intervals.png": score_figures.intervals(own, LEVEL, f"{found.model}: what intervals hold"),
    }
    for one in found.judged:
        pictures |= _of_split(one)
    return pictures


def _log(client: MlflowClient, run_id: str, found: Evaluation) -> None:
    now = get_current_time_millis()
    numbers = flat_metrics([dict(row) for row in found.rows])
    metrics = [Metric(_allowed(name), value, now, 0) for name, value in numbers.items()]
    for first in range(0, len(metrics), MOST_METRICS):
        client.log_batch(run_id, metrics=metrics[first : first + MOST_METRICS])
    params = {"model": found.model, "code_version": code_version(), **found.params}
    client.log_batch(
        run_id, params=[Param(name, text[:LONGEST_PARAM]) for name, text in params.items()]
    )
    client.set_tag(run_id, MODEL_TAG, found.model)
    client.set_tag(run_id, NAME_TAG, f"evaluate {found.model}")
    with tempfile.TemporaryDirectory(prefix="colocast-") as folder:
        (Path(folder) / "rows.json").write_text(json.dumps(list(found.rows), indent=1))
        (Path(folder) / "figures").mkdir()
        for name, png in drawn(found).items():
            (Path(folder) / "figures" / name).write_bytes(png)
        client.log_artifacts(run_id, folder)


def _of_split(one: Judged) -> dict[str, bytes]:
    rows, groups = one.rows, one.rows["group"].astype("str").rename(one.grouped_by)
    name = _allowed(one.split).replace("/", "_").replace(" ", "_")
    title = _title(one)
    unit = "log(measured / predicted)" if one.is_ratio else f"measured - predicted {one.unit}"
    covered = rows["observed"].between(rows["lower"], rows["upper"]).to_numpy()
    return {
        f"predicted_{name}.png": _predicted_against_measured(one, title),
        f"residuals_{name}.png": figures.residuals_by_family(_errors(one), groups, title, unit),
        f"coverage_{name}.png": figures.coverage_by_group(covered, groups, LEVEL, title),
    }


def _own(rows: Rows) -> Rows:
    """Return the model's own rows; a baseline's, ``<split>/<name>``, is told by its best there."""
    splits = {str(row["split"]) for row in rows}
    return [row for row in rows if str(row["split"]).rpartition("/")[0] not in splits]


def _title(one: Judged) -> str:
    if one.unit == RUNTIME:
        jobs, _, moment = one.split.partition("@")
        return f"runtime of {JOBS.get(jobs, jobs)}, asked {MOMENTS.get(moment, moment)}"
    asked, _, measured = one.split.partition(":")[0].partition("_k")
    after = f", {measured} of each one's pairs measured" if measured else ""
    return f"{one.unit.partition(' (')[0]}, held out: {HELD_OUT.get(asked, asked)}{after}"


def _predicted_against_measured(one: Judged, title: str) -> bytes:
    rows = one.rows
    if one.unit == RUNTIME:
        runtime_s = rows["observed"].to_numpy(np.float64)
        return runtime_figures.predicted_against_measured(runtime_s, rows, title)
    noise_sd = float(rows["noise_sd"].iloc[0]) if "noise_sd" in rows else 0.0
    groups = rows["group"].astype("str")
    return figures.predicted_against_measured(rows, groups, title, one.unit, noise_sd)


def _errors(one: Judged) -> Floats:
    sides = [one.rows[name].to_numpy(np.float64) for name in ("observed", "value")]
    if one.is_ratio:
        sides = [np.log(np.maximum(side, TINY)) for side in sides]
    return np.asarray(sides[0] - sides[1], dtype=np.float64)


def _allowed(name: str) -> str:
    """Return a metric's name as MLflow allows it.

    Examples
    --------
    >>> _allowed("configuration:dlperf/hugectr_r2"), _allowed("jobs_>100@start_r2")
    ('configuration/dlperf/hugectr_r2', 'jobs_over_100 at start_r2')
    """
    plain = name.replace(":", "/").replace(">", "over_").replace("@", " at ")
    return "".join(c if c.isalnum() or c in "_-./ " else "-" for c in plain)
