"""Where a step takes its input from: a path, else what was imported, else the sample."""

from pathlib import Path

import pandas as pd

from data.errors import TableError
from data.importers import mapped
from data.loaders import read_any
from data.sample_data import sample_path
from data.settings import Settings


def input_table(name: str, path: Path | None, settings: Settings) -> tuple[pd.DataFrame, str]:
    """Return the table called `name`, and a word on where it came from.

    Parameters
    ----------
    name : str
        A key of ``data.schemas.TABLES``.
    path : Path, optional
        Any path that ``data.loaders.read_any`` reads. Without it: everything imported under
        ``settings.home`` that has such a table, else the embedded sample.
    settings : Settings

    Returns
    -------
    DataFrame
        As ``data.schemas.TABLES[name]`` says.
    str
        The path that was read.

    Raises
    ------
    TableError
        If `path` is unreadable, or nowhere is such a table.
    """
    if path is not None:
        return _table(name, path), str(path)
    if any(settings.imports_path.glob(f"[!.]*/{name}.parquet")):
        return _table(name, settings.imports_path), str(settings.imports_path)
    return _table(name, sample_path()), "the embedded sample"


def mapped_table(name: str, path: Path, mapping: Path) -> pd.DataFrame:
    """Return the table called `name` that a mapping makes of any csv or parquet file.

    Parameters
    ----------
    name : str
        A key of ``data.schemas.TABLES``.
    path, mapping : Path
        See ``data.importers.mapped.read``.

    Raises
    ------
    TableError
        As there, or if the mapping is of another table.
    """
    tables = mapped.read(path, mapping)
    if name not in tables:
        raise TableError(str(mapping), f"table {next(iter(tables))}", f"table {name}")
    return tables[name]


def _table(name: str, path: Path) -> pd.DataFrame:
    tables = read_any(path)
    if name not in tables:
        raise TableError(str(path), f"the tables {', '.join(tables)}", f"a table {name}")
    return tables[name]
