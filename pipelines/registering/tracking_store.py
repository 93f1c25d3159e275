"""Where MLflow keeps what it is told: a server, a database, or a SQLite file of this machine."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_SQLITE = "sqlite:///"


def is_server(tracking_uri: str) -> bool:
    """Return whether MLflow is spoken to over HTTP, and keeps artifacts where it likes."""
    return tracking_uri.startswith(("http://", "https://"))


@contextmanager
def first_use(tracking_uri: str) -> Iterator[None]:
    """Let one process at a time open a SQLite store: two that create it at once break it."""
    if not tracking_uri.startswith(_SQLITE):
        yield
        return
    path = Path(tracking_uri.removeprefix(_SQLITE))
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_name(f".{path.name}.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
