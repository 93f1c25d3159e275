"""The parent run of an attempt in MLflow: each model trained in it is a child run."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from mlflow import MlflowClient
from mlflow.entities import Metric, Param
from mlflow.utils.time import get_current_time_millis

from pipelines.registering.errors import registry_errors
from pipelines.registering.run_log import started_run
from pipelines.retraining.gate import Verdict

EXPERIMENT = "colocast-retrain"


@dataclass(frozen=True, slots=True)
class RetrainRun:
    """Where attempts are logged: MLflow's address, and the folder of a local store's files."""

    tracking_uri: str
    artifacts_path: Path | None


@contextmanager
def retrain_run(where: RetrainRun, models: Sequence[str], decision: Verdict) -> Iterator[str]:
    """Yield the id of a run that holds the gate's verdict; it ends with the block.

    Parameters
    ----------
    where : RetrainRun
    models : sequence of str
        Registered names.
    decision : Verdict

    Raises
    ------
    RegistryError
        If MLflow is out of reach now.
    """
    with registry_errors(where.tracking_uri, "log the retraining"):
        client = MlflowClient(where.tracking_uri, where.tracking_uri)
        run_id = started_run(client, EXPERIMENT, where.artifacts_path, None)
        _log(client, run_id, models, decision)
    status = "FAILED"
    try:
        yield run_id
        status = "FINISHED"
    finally:
        with registry_errors(where.tracking_uri, "end the retraining's run"):
            client.set_terminated(run_id, status)


def _log(client: MlflowClient, run_id: str, models: Sequence[str], decision: Verdict) -> None:
    now = get_current_time_millis()
    numbers = {name: float(v) for name, v in asdict(decision).items() if name != "reason"}
    client.log_batch(
        run_id,
        metrics=[Metric(name, v, now, 0) for name, v in numbers.items() if np.isfinite(v)],
        params=[Param("models", ",".join(models)), Param("reason", decision.reason)],
    )
