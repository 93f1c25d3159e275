"""Everything that led to a version, and the proof that it leads there again."""

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from data.errors import RegistryError
from pipelines.recipes import made
from pipelines.registering.origin import ORIGIN_FOLDER, read_origin, row_ids
from pipelines.registering.provenance import code_version
from pipelines.registering.registry import Registry
from pipelines.registering.report import Origin
from pipelines.registering.run_log import PARENT_TAG
from serving.champions.files import TOLERANCE
from serving.inference.bundle import Bundle

PROBES = 512  # rows drawn from the range of what was learnt, besides the stored examples


@dataclass(frozen=True, slots=True)
class Lineage:
    """From a version back to its rows.

    Attributes
    ----------
    version : str
        ``<registered name>/<version>``, as answers of the service name it.
    run_id : str or None
        Of the training in MLflow.
    parent_run_id : str or None
        Of the retraining, where the version is from one.
    digest : str
        Of all files of the version.
    data_digest : str
        Of the rows that were trained on.
    code_version : str
        With the commit, where it was trained from a checkout.
    previous_champion : str
        Version that served when this one was made, or ``none``.
    cause, gate : str
        Why it was trained, and what the gate said; empty where a person trained it.
    tables : mapping of str to list of str
        Ids of all rows by table: of runs, or of jobs with their attempts.
    facts : mapping of str to str
        All that the version states of itself, such as up to which job log entry it learnt.
    """

    version: str
    run_id: str | None
    parent_run_id: str | None
    digest: str
    data_digest: str
    code_version: str
    previous_champion: str
    cause: str
    gate: str
    tables: Mapping[str, list[str]]
    facts: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Remade:
    """A version beside what its recorded rows make now.

    Attributes
    ----------
    largest_difference : float
        Between the answers of both, relative where they are larger than 1.
    rows : int
        Inputs that both answered: the stored examples and draws from the range of what was learnt.
    is_same : bool
        Whether no answer differs by more than 1e-9.
    code_version : str
        Of the code that made it again.
    """

    largest_difference: float
    rows: int
    is_same: bool
    code_version: str


def split_version(text: str) -> tuple[str, str]:
    """Return the registered name and the version of ``<name>/<version>``.

    Raises
    ------
    RegistryError
        If the text has no such form.

    Examples
    --------
    >>> split_version("colocast-memory/3")
    ('colocast-memory', '3')
    """
    name, slash, version = text.partition("/")
    if not (name and slash and version):
        raise RegistryError(f"found {text!r}, wanted <name>/<version>, such as colocast-memory/3")
    return name, version


def lineage(registry: Registry, name: str, version: str) -> Lineage:
    """Return what led to a version.

    Raises
    ------
    RegistryError
        If there is no such version, or its run was pruned.
    """
    tags = registry.tags(name, version)
    run_id = registry.run_of(name, version)
    origin = recorded_origin(registry, name, version) if run_id else None
    return Lineage(
        version=f"{name}/{version}",
        run_id=run_id,
        parent_run_id=registry.run_tags(run_id).get(PARENT_TAG) if run_id else None,
        digest=tags.get("colocast.digest", ""),
        data_digest=tags.get("colocast.data_digest", ""),
        code_version=tags.get("colocast.code_version", ""),
        previous_champion=tags.get("colocast.previous_champion", "none"),
        cause=tags.get("colocast.cause", ""),
        gate=tags.get("colocast.gate_reason", ""),
        tables={table: row_ids(rows) for table, rows in origin.tables.items()} if origin else {},
        facts={key.removeprefix("colocast."): text for key, text in sorted(tags.items())},
    )


def recorded_origin(registry: Registry, name: str, version: str) -> Origin:
    """Return the rows and the recipe that a version was made from, checked by their digests.

    Raises
    ------
    RegistryError
        If they were not recorded, or are damaged.
    """
    run_id = registry.run_of(name, version)
    if run_id is None:
        raise RegistryError(f"{name}/{version}: found no run, wanted one of a training by colocast")
    with tempfile.TemporaryDirectory(prefix="colocast-") as folder:
        return read_origin(registry.run_files(run_id, ORIGIN_FOLDER, Path(folder)))


def remade(registry: Registry, name: str, version: str) -> Remade:
    """Train again from the recorded rows, and compare the answers.

    Raises
    ------
    RegistryError
        As `recorded_origin`.

    Notes
    -----
    Equal are the answers, to 1e-9; not the bytes, in which a time or a library's version may be.
    """
    origin = recorded_origin(registry, name, version)
    again = {b.spec.name: b for b, _ in made(origin.recipe, origin.tables, origin.seed)}
    registered = registry.load(name, version)
    rows = _probes(registered)
    wanted, found = registered.predict(rows), again[name].predict(rows)
    unit = np.maximum(np.abs(wanted), 1.0)
    largest = float(np.max(np.abs(found - wanted) / unit))
    return Remade(largest, len(rows), largest <= TOLERANCE, code_version())


def _probes(bundle: Bundle) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    names = bundle.spec.features
    low = np.array([max(bundle.spec.low.get(name, 0.0), -1e6) for name in names])
    high = np.array([min(bundle.spec.high.get(name, 1.0), 1e6) for name in names])
    drawn = np.random.default_rng(0).uniform(low, np.maximum(high, low), (PROBES, len(names)))
    stored = np.array(bundle.spec.example_rows, dtype=np.float64).reshape(-1, len(names))
    return np.vstack([stored, drawn])
