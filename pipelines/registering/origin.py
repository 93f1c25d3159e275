"""The tables that a version was made from, kept in its run: rows, ids and digests."""

import json
from pathlib import Path

import pandas as pd

from data.errors import RegistryError
from pipelines.registering.provenance import frame_digest
from pipelines.registering.report import Origin

ORIGIN_FOLDER = "training"
RECIPE_FILE = "recipe.json"


def write_origin(origin: Origin, folder: Path) -> None:
    """Write ``<table>.parquet`` each, and ``recipe.json`` with what makes a model of them."""
    folder.mkdir()
    for name, table in origin.tables.items():
        table.to_parquet(folder / f"{name}.parquet", index=False)
    # Of what is read back: Parquet keeps all values, but not each way of writing a missing one.
    digests = {name: frame_digest(_read(folder, name)) for name in origin.tables}
    facts = {"recipe": origin.recipe, "seed": origin.seed, "digests": digests}
    (folder / RECIPE_FILE).write_text(json.dumps(facts, indent=1))


def read_origin(folder: Path) -> Origin:
    """Return what `write_origin` wrote.

    Raises
    ------
    RegistryError
        If a file is missing, unreadable or differs from its digest.
    """
    try:
        facts = json.loads((folder / RECIPE_FILE).read_text())
        tables = {name: _read(folder, name) for name in facts["digests"]}
        origin = Origin(str(facts["recipe"]), int(facts["seed"]), tables)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RegistryError(f"{folder}: found {error!r}, wanted the training tables") from error
    for name, wanted in facts["digests"].items():
        found = frame_digest(tables[name])
        if found != wanted:
            raise RegistryError(f"{folder}/{name}: found rows {found}, wanted {wanted}")
    return origin


def row_ids(table: pd.DataFrame) -> list[str]:
    """Return what identifies each row: ``run_id``, or ``job_id`` with the attempt.

    Examples
    --------
    >>> row_ids(pd.DataFrame({"job_id": ["a"], "attempt": [2.0]}))
    ['a/2']
    """
    if "run_id" in table:
        return [str(name) for name in table["run_id"]]
    attempts = table["attempt"].astype("int64")
    return [f"{job}/{attempt}" for job, attempt in zip(table["job_id"], attempts, strict=True)]


def _read(folder: Path, name: str) -> pd.DataFrame:
    return pd.read_parquet(folder / f"{name}.parquet")
