"""The held-out answers of an evaluation, measured by MLflow's own evaluator beside our numbers."""

import logging
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import mlflow
import mlflow.data
import mlflow.models

from pipelines.judged import Judged

EVALUATOR = {"log_model_explainability": False}  # it is given answers, and sees no model
_TRACKING = "MLFLOW_TRACKING_URI"


def evaluated_by_mlflow(tracking_uri: str, run_id: str, judged: Sequence[Judged]) -> None:
    """Let ``mlflow.models.evaluate`` judge each split's answers, on a run that is there.

    The run gets each split as a data set that was evaluated, and MLflow's names for a regressor's
    metrics: ``<split>_mean_absolute_error``, ``<split>_r2_score``, … in the unit of the answers.
    They compare with other projects' runs; what has no name there (intervals, baselines, the
    ceiling of noise) is ours alone.

    Parameters
    ----------
    tracking_uri : str
    run_id : str
    judged : sequence of Judged
        A split without a row is passed over.

    Raises
    ------
    MlflowException
        If the store cannot be written.

    Notes
    -----
    MLflow evaluates in the store and the run that the whole process works on. A command may do
    that; the retrainer and the service, which work on several models at once, may not.
    """
    with _tracked(tracking_uri), mlflow.start_run(run_id=run_id):
        for one in judged:
            if len(one.rows):
                _evaluate(one)


def prefix(split: str) -> str:
    """Return what the metrics of a split begin with; MLflow would double a name with a slash.

    Examples
    --------
    >>> prefix("extrapolation:dlperf/hugectr"), prefix("jobs_>100@1h")
    ('extrapolation_dlperf_hugectr_', 'jobs_over_100_at_1h_')
    """
    plain = split.replace(">", "over_").replace("@", "_at_")
    return re.sub(r"[^A-Za-z0-9.-]+", "_", plain) + "_"


def _evaluate(one: Judged) -> None:
    rows = one.rows.astype({"group": "str"}).reset_index(drop=True)
    data = mlflow.data.from_pandas(
        rows, name=f"held out: {one.split}", targets="observed", predictions="value"
    )
    mlflow.models.evaluate(
        data=data,
        model_type="regressor",
        evaluators="default",
        evaluator_config={**EVALUATOR, "metric_prefix": prefix(one.split)},
    )


@contextmanager
def _tracked(tracking_uri: str) -> Iterator[None]:
    before, level = os.environ.get(_TRACKING), logging.root.manager.disable
    mlflow.set_tracking_uri(tracking_uri)
    logging.disable(logging.INFO)  # it tells of each metric that it tries on one row
    try:
        yield
    finally:
        logging.disable(level)
        mlflow.set_tracking_uri(None)  # takes it back, out of the environment too
        if before is not None:
            os.environ[_TRACKING] = before  # set_tracking_uri would outlast a later change of it
