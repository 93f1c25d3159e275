"""MLflow without telemetry, without minutes of retries and without chatter; by its own settings."""

import logging
import os

from mlflow.telemetry import set_telemetry_client

SETTINGS = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    # Its default of 7 retries with back-off keeps a command silent for four minutes.
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "30",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
}
"""Environment of MLflow's client; what the user has set stays."""


def silence() -> None:
    """Apply the settings to this process and to those it starts."""
    for name, value in SETTINGS.items():
        os.environ.setdefault(name, value)
    set_telemetry_client()  # it was made when MLflow was imported; this reads the setting again
    for name in ("mlflow", "alembic"):
        logging.getLogger(name).setLevel(logging.WARNING)
    # It logs a traceback of what it also raises, and we answer.
    logging.getLogger("mlflow.store.db.utils").setLevel(logging.CRITICAL)
