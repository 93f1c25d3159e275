"""colocast's own tables, as parquet or csv: what was imported or measured before."""

from pathlib import Path

import pandas as pd

from data.errors import TableError, shown
from data.schemas import TABLES, Table, checked
from data.tables import SUFFIXES, read_frame

TEXTS = sorted(
    {column.name for table in TABLES.values() for column in table.columns if column.kind == "text"}
)


def recognises(path: Path) -> bool:
    """Whether `path` is a table file, or a directory with files named after our tables."""
    return path.name.endswith(SUFFIXES) if path.is_file() else bool(_files(path))


def read(path: Path) -> dict[str, pd.DataFrame]:
    """Return the tables in a file or directory.

    Parameters
    ----------
    path : Path
        A directory with ``<table>.parquet`` or ``.csv`` files, at any depth one folder down
        (as ``colocast import`` writes them), or one file, whose table is told from its name or
        else from its columns. Rows of the same table in several files are joined.

    Returns
    -------
    dict of table name to DataFrame

    Raises
    ------
    TableError
        No table is recognised, or a row does not follow its table.
    """
    files = [path] if path.is_file() else _files(path)
    if not files:
        raise TableError(str(path), "no table", f"files named after {', '.join(TABLES)}")
    parts: dict[str, list[pd.DataFrame]] = {}
    for file in files:
        frame = read_frame(file, TEXTS)
        table = TABLES.get(_stem(file)) or _table_of(frame, file)
        parts.setdefault(table.name, []).append(checked(frame, table, str(file)))
    return {name: _joined(frames, TABLES[name], path) for name, frames in parts.items()}


def _joined(frames: list[pd.DataFrame], table: Table, path: Path) -> pd.DataFrame:
    if len(frames) == 1:
        return frames[0]
    return checked(pd.concat(frames, ignore_index=True), table, str(path))


def _files(path: Path) -> list[Path]:
    found = [*path.glob("*"), *path.glob("[!.]*/*")]
    return sorted(file for file in found if _stem(file) in TABLES and file.is_file())


def _stem(file: Path) -> str:
    suffix = next((end for end in SUFFIXES if file.name.endswith(end)), None)
    return file.name.removesuffix(suffix) if suffix else ""


def _table_of(frame: pd.DataFrame, file: Path) -> Table:
    """Return the one table that has every column of `frame`, and whose needed ones it has."""
    columns = set(frame.columns)
    for table in TABLES.values():
        needed = {column.name for column in table.columns if not column.nullable}
        if needed <= columns <= set(table.names):
            return table
    nearest = max(TABLES.values(), key=lambda table: len(columns & set(table.names)))
    needed = {column.name for column in nearest.columns if not column.nullable}
    absent, strange = needed - columns, columns - set(nearest.names)
    found = f"no column {shown(absent)}" if absent else f"unknown columns {shown(strange)}"
    raise TableError(str(file), found, f"a known layout; the nearest is our table {nearest.name}")
