"""What a failure of MLflow means to the person who reads it, and the next step."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from mlflow.exceptions import MlflowException
from sqlalchemy.exc import SQLAlchemyError

from data.errors import RegistryError

_STEPS = (
    (
        "database is locked",
        "another process writes to it; end or await that one, or let all talk "
        "to one server (`colocast up`, MLFLOW_TRACKING_URI)",
    ),
    ("disk is full", "free some space, then try again"),
    ("readonly database", "give this user write access to the file and its folder"),
    ("unable to open database file", "create its folder, or give this user access to it"),
    ("file is not a database", "move it away, or set MLFLOW_TRACKING_URI to another"),
    ("out-of-date database schema", "another MLflow wrote it; run `mlflow db upgrade` on it"),
    ("Max retries exceeded", "start the server (`colocast up`), or unset MLFLOW_TRACKING_URI"),
    ("API request to", "check the server's log, then try again"),
)
LONGEST = 200  # characters of MLflow's own words; the rest is SQL


@contextmanager
def registry_errors(tracking_uri: str, action: str) -> Iterator[None]:
    """Turn what MLflow raises inside into one `RegistryError` that names the next step.

    Parameters
    ----------
    tracking_uri : str
        Named in the message.
    action : str
        What was being done, as in "register colocast-memory".

    Raises
    ------
    RegistryError
        On any failure of MLflow, its database or the disk.
    """
    try:
        yield
    except (MlflowException, SQLAlchemyError) as error:
        raise RegistryError(_message(tracking_uri, action, str(error))) from error
    except OSError as error:
        step = "free some space" if error.errno == errno.ENOSPC else "check the path"
        raise RegistryError(
            f"{error.filename or tracking_uri}: could not {action}: {error.strerror or error}; "
            f"{step}, then try again"
        ) from error


def _message(tracking_uri: str, action: str, words: str) -> str:
    found = (words.splitlines() or ["no reason given"])[0][:LONGEST]
    step = next((step for sign, step in _STEPS if sign in words), "see the log of MLflow")
    return f"{tracking_uri}: could not {action}: {found}; {step}"
