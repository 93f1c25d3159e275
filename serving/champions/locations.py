"""From where a version's files may be fetched: what a registry names is not simply believed.

Whoever may write to the registry may name any address as a version's source. So the service reads
local folders below given roots only, asks no host but the registry's own over HTTP, and leaves
object stores, which have credentials of their own, to MLflow.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

from data.errors import BadModelError
from data.urls import without_credentials

ROOTS = "COLOCAST_ARTIFACT_ROOTS"
PROXIED = "mlflow-artifacts"
STORES = ("s3", "gs", "wasb", "wasbs", "abfs", "abfss", "hdfs", "viewfs", "r2", "b2")
"""Schemes of object stores; never http(s), which would let the registry choose a host."""
REFERENCES = ("models", "runs")
"""What MLflow resolves through the registry itself."""


def scheme_of(source: str) -> str:
    """Return the scheme of a version's source: file, mlflow-artifacts, or an object store's.

    Raises
    ------
    BadModelError
        If it is another: the version is refused.

    Examples
    --------
    >>> scheme_of("/srv/artifacts/1"), scheme_of("s3://bucket/1")
    ('file', 's3')
    >>> scheme_of("http://169.254.169.254/latest")
    Traceback (most recent call last):
    data.errors.BadModelError: found files at http://169.254.169.254/latest, wanted file, ...
    """
    try:
        scheme = urlsplit(source).scheme or "file"
    except ValueError:
        scheme = "none that can be read"
    allowed = ("file", PROXIED, *REFERENCES, *STORES)
    if scheme not in allowed:
        found = without_credentials(source)[:200]
        raise BadModelError(f"found files at {found}, wanted {', '.join(allowed)}")
    return scheme


def local_roots(environ: Mapping[str, str], home: Path) -> tuple[Path, ...]:
    """Return the folders below which a registry's local paths are read.

    Parameters
    ----------
    environ : mapping of str to str
        ``COLOCAST_ARTIFACT_ROOTS`` names more, as ``PATH`` does: an artifact store that is
        mounted here.
    home : Path
        ``COLOCAST_HOME``; always one of them.
    """
    named = [Path(text) for text in environ.get(ROOTS, "").split(os.pathsep) if text]
    return tuple(path.resolve() for path in (home, *named))


def local_folder(source: str, roots: Sequence[Path]) -> Path:
    """Return the folder that a source on this machine names, links followed.

    Raises
    ------
    BadModelError
        If it lies below none of `roots`, or names another host.
    """
    parts = urlsplit(source)
    try:
        folder = Path(unquote(parts.path)).resolve()
    except (ValueError, OSError, RuntimeError) as error:  # a NUL, a loop of links
        raise BadModelError(f"found files at {source!r:.200}, wanted a path") from error
    is_inside = any(folder.is_relative_to(root) for root in roots)
    if parts.netloc not in ("", "localhost") or not is_inside:
        raise BadModelError(
            f"found files at {source!r:.200}, wanted a folder below COLOCAST_HOME; name other "
            f"roots with {ROOTS}"
        )
    return folder
