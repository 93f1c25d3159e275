"""Which file of a layout a path means: told from its name, or else from its columns."""

from collections.abc import Collection, Sequence
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
from pyarrow import ArrowException

from data.tables import SUFFIXES


def located(path: Path, names: Collection[str], columns: Collection[str]) -> Path | None:
    """Return the file at `path` that has this layout, None where there is none.

    Parameters
    ----------
    path : Path
        A file, whatever it is called, or a directory.
    names : collection of str
        What the source calls the file; in a directory the first of them counts.
    columns : collection of str
        That tell a file of another name: the only table with all of them in the directory.
    """
    if not path.is_dir():
        return path if path.name in names or has_columns(path, columns) else None
    named = [path / name for name in names if (path / name).is_file()]
    alike = named or [file for file in sorted(path.iterdir()) if has_columns(file, columns)]
    return alike[0] if named or len(alike) == 1 else None


def expected(path: Path, names: Sequence[str], columns: Collection[str]) -> Path:
    """Return the file of this layout, or the one whose absence or columns are to be reported."""
    missing = path / names[0] if path.is_dir() else path
    return located(path, names, columns) or missing


def has_columns(file: Path, columns: Collection[str]) -> bool:
    """Whether `file` is a csv or parquet table with all of `columns`; reads its head only."""
    if not file.name.endswith(SUFFIXES) or not file.is_file():
        return False
    try:
        if file.suffix == ".parquet":
            return set(columns) <= set(pq.read_schema(file).names)
        return set(columns) <= set(pd.read_csv(file, nrows=0).columns)
    except (OSError, EOFError, ValueError, ArrowException):
        return False
