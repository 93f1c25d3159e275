"""The parent run of an attempt in MLflow: each model trained in it is a child run."""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from mlflow import MlflowClient
from mlflow.entities import Metric, Param
from mlflow.utils.time import get_current_time_millis

from pipelines.registering.errors import registry_errors
from pipelines.registering.run_log import NOTE_TAG, started_run
from pipelines.retraining.gate_terms import Verdict
from pipelines.retraining.state import Cause

EXPERIMENT = "colocast-retrain"
RUN_NAME = "mlflow.runName"


@dataclass(frozen=True, slots=True)
class RetrainRun:
    """Where attempts are logged: MLflow's address, and the folder of a local store's files."""

    tracking_uri: str
    artifacts_path: Path | None


@contextmanager
def retrain_run(
    where: RetrainRun,
    models: Sequence[str],
    decision: Verdict,
    cause: Cause,
    pictures: Mapping[str, bytes] | None = None,
) -> Iterator[str]:
    """Yield the id of a run that holds the gate's verdict; it ends with the block.

    Parameters
    ----------
    where : RetrainRun
    models : sequence of str
        Registered names.
    decision : Verdict
    cause : Cause
    pictures : mapping of str to bytes, optional
        File name to PNG.

    Raises
    ------
    RegistryError
        If MLflow is out of reach now.
    """
    with registry_errors(where.tracking_uri, "log the retraining"):
        client = MlflowClient(where.tracking_uri, where.tracking_uri)
        run_id = started_run(client, EXPERIMENT, where.artifacts_path, None)
        _log(client, run_id, models, decision, cause)
        _draw(client, run_id, pictures or {})
    status = "FAILED"
    try:
        yield run_id
        status = "FINISHED"
    finally:
        with registry_errors(where.tracking_uri, "end the retraining's run"):
            client.set_terminated(run_id, status)


def _draw(client: MlflowClient, run_id: str, pictures: Mapping[str, bytes]) -> None:
    with tempfile.TemporaryDirectory(prefix="colocast-") as folder:
        for name, png in pictures.items():
            (Path(folder) / name).write_bytes(png)
        if pictures:
            client.log_artifacts(run_id, folder, "figures")


def _log(
    client: MlflowClient, run_id: str, models: Sequence[str], decision: Verdict, cause: Cause
) -> None:
    now = get_current_time_millis()
    known = {k: v for k, v in asdict(decision).items() if isinstance(v, int | float)}
    words = {"models": ",".join(models), "cause": cause.reason, "reason": decision.reason}
    if decision.worst_part:
        words["worst_part"] = decision.worst_part
    client.log_batch(
        run_id,
        metrics=[Metric(name, float(v), now, 0) for name, v in known.items() if np.isfinite(v)],
        params=[Param(name, text) for name, text in words.items()],
    )
    kind = "drift" if cause.since else "new evidence"
    client.set_tag(run_id, RUN_NAME, f"{' and '.join(models)}: {kind}")
    client.set_tag(run_id, NOTE_TAG, f"Because: {cause.reason}.\n\nDecided: {decision.reason}.")
