"""Any importable path as canonical tables: the layout is recognised, or named by its kind."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from data.errors import TableError
from data.importers import canonical, dlperf, gavel, gpumemnet, lucid, mapped, miso, philly, slurm
from data.tables import write_tables

__all__ = ["KINDS", "Importer", "read_any", "write_tables"]


@dataclass(frozen=True, slots=True)
class Importer:
    """One layout: whether a path has it, and its tables."""

    recognises: Callable[[Path], bool]
    read: Callable[[Path], dict[str, pd.DataFrame]]


KINDS: Mapping[str, Importer] = {
    "lucid": Importer(lucid.recognises, lucid.read),
    "gavel": Importer(gavel.recognises, gavel.read),
    "dlperf": Importer(dlperf.recognises, dlperf.read),
    "gpumemnet": Importer(gpumemnet.recognises, gpumemnet.read),
    "miso": Importer(miso.recognises, miso.read),
    "philly": Importer(philly.recognises, philly.read),
    "slurm": Importer(slurm.recognises, slurm.read),
    "tables": Importer(canonical.recognises, canonical.read),
}
"""Every layout by its name, in the order in which they are tried."""

MAPPED = "mapped"
"""The kind that is never recognised: any table, with a mapping beside it."""


def read_any(
    path: Path, kind: str | None = None, mapping: Path | None = None
) -> dict[str, pd.DataFrame]:
    """Return the canonical tables in a file or directory.

    Parameters
    ----------
    path : Path
    kind : str, optional
        One of ``KINDS`` or ``MAPPED``; recognised from names and columns without it.
    mapping : Path, optional
        The YAML file of ``MAPPED``, see ``data.importers.mapping``.

    Returns
    -------
    dict of table name (``data.schemas.TABLES``) to DataFrame

    Raises
    ------
    TableError
        The path is missing or of no known layout, or its importer refuses a row.
    """
    if not path.exists():
        raise TableError(str(path), "nothing", "a file or directory to read")
    if kind not in (None, MAPPED, *KINDS):
        raise TableError(str(path), f"the kind {kind!r}", f"one of {', '.join(KINDS)}, {MAPPED}")
    if (kind == MAPPED) != (mapping is not None):
        wanted = f"a mapping with the kind {MAPPED}, and only with it"
        raise TableError(str(path), f"the kind {kind!r} with the mapping {mapping}", wanted)
    if mapping is not None:
        return mapped.read(path, mapping)
    names = [kind] if kind else [name for name, known in KINDS.items() if known.recognises(path)]
    if not names:
        wanted = f"a layout of {', '.join(KINDS)}, or `colocast import mapped` with a mapping"
        raise TableError(str(path), "no known layout", wanted)
    return KINDS[names[0]].read(path)
