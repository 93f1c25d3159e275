"""One MLflow run of a training: parameters, metrics, data, pictures, and the model itself."""

import tempfile
from pathlib import Path

import mlflow.data
from mlflow import MlflowClient
from mlflow.entities import DatasetInput, InputTag, Metric, Param
from mlflow.exceptions import MlflowException
from mlflow.models import Model
from mlflow.utils.time import get_current_time_millis

from pipelines.registering.model_directory import write_model_directory
from pipelines.registering.origin import ORIGIN_FOLDER, write_origin
from pipelines.registering.provenance import frame_digest
from pipelines.registering.report import TrainingReport
from serving.inference.bundle import Bundle

DIGEST_TAG = "colocast.digest"
PARENT_TAG = "mlflow.parentRunId"
NOTE_TAG = "mlflow.note.content"  # what the UI shows as the run's description
LONGEST_PARAM = 6000  # characters, MLflow's limit
LONGEST_DESCRIPTION = 5000
DIGEST_LENGTH = 36  # hex digits that MLflow keeps of a data set's digest


def started_run(
    client: MlflowClient, name: str, artifacts_path: Path | None, parent_run_id: str | None
) -> str:
    """Start a run in the experiment called `name`, which is made where there is none.

    Parameters
    ----------
    client : MlflowClient
    name : str
        Of the registered model.
    artifacts_path : Path or None
        Where a new experiment keeps its files; None leaves it to the server.
    parent_run_id : str or None

    Returns
    -------
    str
        The run's id.
    """
    experiment = client.get_experiment_by_name(name)
    experiment_id = (
        experiment.experiment_id if experiment else _created(client, name, artifacts_path)
    )
    tags = {} if parent_run_id is None else {PARENT_TAG: parent_run_id}
    run_id: str = client.create_run(experiment_id, tags=tags).info.run_id
    return run_id


def _created(client: MlflowClient, name: str, artifacts_path: Path | None) -> str:
    location = None if artifacts_path is None else (artifacts_path / name).as_uri()
    try:
        made: str = client.create_experiment(name, artifact_location=location)
    except MlflowException:
        # Another process may have been quicker; if not, this was another failure.
        experiment = client.get_experiment_by_name(name)
        if experiment is None:
            raise
        made = experiment.experiment_id
    return made


def log_report(client: MlflowClient, run_id: str, report: TrainingReport) -> None:
    """Log all of a report on a run."""
    now = get_current_time_millis()
    client.log_batch(
        run_id,
        metrics=[Metric(name, float(value), now, 0) for name, value in report.metrics.items()],
        params=[Param(name, str(text)[:LONGEST_PARAM]) for name, text in report.params.items()],
    )
    client.set_tag(run_id, NOTE_TAG, report.card)
    # Our own digest: MLflow's looks at the type of every single value.
    digest = frame_digest(report.dataset)[:DIGEST_LENGTH]
    data = mlflow.data.from_pandas(report.dataset, name=report.dataset_name, digest=digest)
    context = [InputTag("mlflow.data.context", "training")]
    client.log_inputs(run_id, [DatasetInput(data._to_mlflow_entity(), context)])
    with tempfile.TemporaryDirectory(prefix="colocast-") as folder:
        _write_files(Path(folder), report)
        client.log_artifacts(run_id, folder)


def _write_files(folder: Path, report: TrainingReport) -> None:
    (folder / "figures").mkdir()
    for name, png in report.figures.items():
        (folder / "figures" / name).write_bytes(png)
    for name, text in {"model_card.md": report.card, **report.documents}.items():
        (folder / name).write_text(text)
    if report.origin is not None:
        write_origin(report.origin, folder / ORIGIN_FOLDER)


def log_version(client: MlflowClient, run_id: str, bundle: Bundle, report: TrainingReport) -> str:
    """Upload a model with its facts and register it; return the new version.

    Notes
    -----
    By the client alone: MLflow's ``log_model`` works on process-wide state, and a retrainer may
    log several models at once.
    """
    name = bundle.spec.name
    experiment_id = client.get_run(run_id).info.experiment_id
    logged = client.create_logged_model(experiment_id, name=name, source_run_id=run_id)
    with tempfile.TemporaryDirectory(prefix="colocast-") as folder:
        model = Model(run_id=run_id, model_id=logged.model_id)
        digest = write_model_directory(bundle, Path(folder) / "model", model)
        client.log_model_artifacts(logged.model_id, str(Path(folder) / "model"))
    client.finalize_logged_model(logged.model_id, "READY")
    _ensure_registered(client, name)
    # By location, not as models:/<id>: MLflow would look that id up in its process-wide store.
    made = client.create_model_version(
        name,
        source=logged.artifact_location,
        run_id=run_id,
        model_id=logged.model_id,
        description=report.card[:LONGEST_DESCRIPTION],
        tags={DIGEST_TAG: digest, **{f"colocast.{key}": v for key, v in bundle.spec.facts.items()}},
    )
    return str(made.version)  # a SQL store gives a number, a server a text


def _ensure_registered(client: MlflowClient, name: str) -> None:
    try:
        client.create_registered_model(name)
    except MlflowException as error:
        if error.error_code != "RESOURCE_ALREADY_EXISTS":
            raise
