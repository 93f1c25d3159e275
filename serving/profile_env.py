"""The tuned default profile: what to tell BentoML and the libraries below it before they start.

Measured on this project's machine (one-row JSON, concurrency 1, stock BentoML 1.4.40): p50 1.28 ms
and p99 176 ms; with this profile 0.75 and 1.4 ms. The causes are timers and spans that outlive
their requests, full garbage collections over 200,000 imported objects, tracing without an
exporter, and the access log. See ``docs/serving.md``.
"""

import logging
from collections.abc import Mapping
from pathlib import Path

from data.errors import SettingError
from data.settings import Settings

WORKERS = "COLOCAST_WORKERS"
TOKEN_FILE = "COLOCAST_TOKEN_FILE"  # noqa: S105 - the name of a variable
PUSH_SECRET_FILE = "COLOCAST_PUSH_SECRET_FILE"  # noqa: S105 - the name of a variable
POLL_S = "COLOCAST_POLL_S"
MOST_WORKERS = 64

TIMEOUT_S = 2
"""BentoML keeps each request's timer, with the request, for this long after it is answered."""

SWITCH_S = 0.0005
"""How long a thread that computes in the background keeps a request from the interpreter: ten times
as long, Python's default, would show in the slowest answers while a version is loaded."""

COLLECT_AFTER = 50_000
"""New objects between two collections; Python's default of 700 fits programs that import little."""

FIXED = {
    "BENTOML_DO_NOT_TRACK": "true",  # the string; 1 is ignored
    "OTEL_SDK_DISABLED": "true",  # spans cost a quarter of a request and go nowhere
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    # One thread a worker: a request must not fan out over cores that other workers use.
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    # Freed memory goes back after a swap instead of staying in one arena for each thread.
    "MALLOC_ARENA_MAX": "2",
    "PYTHONUNBUFFERED": "1",
}


def serving_environment(
    environ: Mapping[str, str], settings: Settings, workers: int, port: int
) -> dict[str, str]:
    """Return the whole environment of a prediction service.

    Parameters
    ----------
    environ : mapping of str to str
        The caller's; nothing in it is lost, and what it says of ``FIXED`` stands.
    settings : Settings
        Spelt out, because BentoML changes the working directory.
    workers : int
    port : int
        Keeps the metrics of two services of one home apart.

    Raises
    ------
    SettingError
        If `workers` is not in [1, 64].
    """
    checked_workers(str(workers))
    return {
        **FIXED,
        **environ,
        "BENTOML_HOME": str(settings.home / "bentoml" / str(port)),
        "COLOCAST_HOME": str(settings.home),
        "COLOCAST_JOBLOG_URL": settings.joblog_url,
        "MLFLOW_TRACKING_URI": settings.tracking_uri,
        WORKERS: str(workers),
    }


def silence_access_log() -> None:
    """Keep uvicorn from writing down each request for a logger that drops it.

    Examples
    --------
    >>> silence_access_log()
    >>> logging.getLogger("uvicorn.access").hasHandlers()  # what uvicorn asks for each connection
    False
    """
    log = logging.getLogger("uvicorn.access")
    log.handlers, log.propagate = [], False


def checked_workers(text: str) -> int:
    """Return the number of workers that a text names.

    Raises
    ------
    SettingError
        If it is not a whole number in [1, 64].

    Examples
    --------
    >>> checked_workers("2")
    2
    """
    if not text.isdecimal() or not 1 <= int(text) <= MOST_WORKERS:
        raise SettingError(f"{WORKERS} must be a whole number in [1, {MOST_WORKERS}], got {text!r}")
    return int(text)


def poll_interval_s(environ: Mapping[str, str]) -> float:
    """Return how often the registry is asked and the job log read (s).

    Raises
    ------
    SettingError
        If ``COLOCAST_POLL_S`` is not a number in [0.05, 3600].
    """
    text = environ.get(POLL_S, "2")
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0.05 <= seconds <= 3600:
        raise SettingError(f"{POLL_S} must be a number in [0.05, 3600], got {text!r}")
    return seconds


def token_path(environ: Mapping[str, str]) -> Path | None:
    """Return the file of bearer tokens, or None where no token is wanted."""
    text = environ.get(TOKEN_FILE)
    return Path(text) if text else None


def push_secret_path(environ: Mapping[str, str]) -> Path | None:
    """Return the file of secrets that sign pushes, or None where no push is taken."""
    text = environ.get(PUSH_SECRET_FILE)
    return Path(text) if text else None


def push_book_path(environ: Mapping[str, str]) -> Path:
    """Return where the pushes that came are written down."""
    return Settings.from_mapping(environ, Path.cwd()).home / "pushes.json"
