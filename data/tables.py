"""Tables on disk: read from csv or parquet, written all or nothing."""

import os
import shutil
import tempfile
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pandas as pd

from data.errors import TableError

SUFFIXES = (".parquet", ".csv", ".csv.gz")


def read_frame(path: Path, texts: Collection[str] = ()) -> pd.DataFrame:
    """Return the one table in a csv, csv.gz or parquet file, unchecked.

    Parameters
    ----------
    path : Path
        The name's end says the format.
    texts : collection of str
        Columns of a csv file to take literally: an id such as ``6214e9`` or ``007`` is no number.

    Returns
    -------
    DataFrame with a RangeIndex, one row per data row of the file

    Raises
    ------
    TableError
        The file is missing, unreadable, of another format or has no rows.
    """
    if not path.is_file():
        raise TableError(str(path), "no such file", "a csv or parquet file")
    if not path.name.endswith(SUFFIXES):
        raise TableError(str(path), f"the name {path.name}", f"one ending in {', '.join(SUFFIXES)}")
    try:
        frame = pd.read_parquet(path) if path.suffix == ".parquet" else _read_csv(path, texts)
    except (OSError, ValueError, EOFError, UnicodeDecodeError) as error:
        found = f"an unreadable file ({str(error).splitlines()[0]})"
        raise TableError(str(path), found, "a csv or parquet file") from error
    if frame.empty:
        raise TableError(str(path), "no rows", "at least one")
    return frame.reset_index(drop=True)


def _read_csv(path: Path, texts: Collection[str]) -> pd.DataFrame:
    # Without low_memory=False one column may mix texts and numbers by chunk.
    return pd.read_csv(path, low_memory=False, dtype=dict.fromkeys(texts, "str"))


def write_tables(tables: Mapping[str, pd.DataFrame], directory: Path) -> None:
    """Write each table as ``<name>.parquet`` into `directory`, or change nothing.

    Parameters
    ----------
    tables : mapping of table name to DataFrame
    directory : Path
        Replaced as a whole where it exists: a table that is not in `tables` is gone after.

    Notes
    -----
    The files are written and synced in a sibling folder that then takes the directory's name,
    so no reader ever sees half of an import. A crash between the two renames leaves the
    previous import whole in a sibling called ``.<name>.previous-*``.

    Raises
    ------
    TableError
        The file system refuses: disk full, no right to write.
    """
    with _named_faults(directory), _fresh_sibling(directory) as fresh:
        for name, frame in tables.items():
            _write_synced(frame, fresh / f"{name}.parquet")
        fresh.chmod(0o755)
        _swap(fresh, directory)


@contextmanager
def _fresh_sibling(directory: Path) -> Iterator[Path]:
    directory.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(prefix=f".{directory.name}.", dir=directory.parent))
    try:
        yield fresh
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


@contextmanager
def _named_faults(path: Path) -> Iterator[None]:
    """Turn what the file system refuses (disk full, no right to write) into a TableError."""
    try:
        yield
    except OSError as error:
        found = f"{error.strerror or error} ({error.filename or path.parent})"
        raise TableError(str(path), found, "a folder to write to, with space left") from error


def write_frame(frame: pd.DataFrame, path: Path) -> None:
    """Write one table to `path`, parquet or csv by its name, or change nothing.

    Raises
    ------
    TableError
        The name ends in neither, or the file system refuses.
    """
    if not path.name.endswith(SUFFIXES):
        raise TableError(str(path), f"the name {path.name}", f"one ending in {', '.join(SUFFIXES)}")
    # The temporary name keeps the ending: pandas takes the compression from it.
    fresh = path.with_name(f".{os.getpid()}.{path.name}")
    with _named_faults(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            _write_synced(frame, fresh)
            fresh.replace(path)
        finally:
            fresh.unlink(missing_ok=True)


def _write_synced(frame: pd.DataFrame, path: Path) -> None:
    if path.suffix == ".parquet":
        frame.to_parquet(path, index=False)
    else:
        frame.to_csv(path, index=False)
    with path.open("rb") as file:
        os.fsync(file.fileno())


def _swap(fresh: Path, directory: Path) -> None:
    if not directory.exists():
        fresh.rename(directory)
        return
    previous = Path(tempfile.mkdtemp(prefix=f".{directory.name}.previous-", dir=directory.parent))
    directory.rename(previous)  # an empty directory may be renamed over
    try:
        fresh.rename(directory)
    except OSError:
        previous.rename(directory)
        raise
    shutil.rmtree(previous, ignore_errors=True)
