"""The YAML file that maps any table's columns onto one of ours."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import yaml

from data.errors import TableError, shown
from data.importers.units import units_of
from data.schemas import TABLES, Table

Scalar = str | float | bool
KEYS = ("table", "columns", "constants", "gpu_models")
COLUMN_KEYS = ("from", "unit", "values", "missing", "format", "zone", "numbered")


@dataclass(frozen=True, slots=True)
class ColumnRule:
    """Where one of our columns comes from.

    Attributes
    ----------
    source : str, optional
        Column of the file; None for `numbered`.
    unit : str, optional
        The source's unit, see ``data.importers.units``; ours without it.
    words : mapping, optional
        The source's words and ours; a word that is not in it is refused.
    missing : tuple
        Values that mean "unknown".
    form, zone : str
        ``strptime`` format and IANA zone of a date; ISO 8601 and UTC without them.
    numbered : str, optional
        Make ids of this prefix and the row's number instead of reading a column.
    """

    source: str | None = None
    unit: str | None = None
    words: Mapping[str, Scalar] | None = None
    missing: tuple[Scalar, ...] = ()
    form: str | None = None
    zone: str = "UTC"
    numbered: str | None = None


@dataclass(frozen=True, slots=True)
class TableMapping:
    """How a file becomes one of our tables: columns, constants and further GPU models."""

    table: Table
    columns: Mapping[str, ColumnRule]
    constants: Mapping[str, Scalar] = field(default_factory=dict)
    gpu_models: tuple[str, ...] = ()

    @property
    def sources(self) -> list[str]:
        """The columns that the file must have."""
        return [rule.source for rule in self.columns.values() if rule.source is not None]

    @property
    def texts(self) -> list[str]:
        """Those of the file's columns that are to be taken literally."""
        kinds = {column.name: column.kind for column in self.table.columns}
        literal = [rule for name, rule in self.columns.items() if kinds[name] == "text"]
        return [rule.source for rule in literal if rule.source is not None]


def read_mapping(path: Path) -> TableMapping:
    """Return the mapping in a YAML file.

    Parameters
    ----------
    path : Path
        Keys ``table`` (ours), ``columns`` (our column: the file's column, or a mapping with
        ``from`` and any of ``unit``, ``values``, ``missing``, ``format``, ``zone``, or
        ``numbered: PREFIX``), ``constants`` (our column: value) and ``gpu_models`` (names to
        accept beside the known ones).

    Raises
    ------
    TableError
        The file is missing, no YAML, or says something that has no meaning here.
    """
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        found = " ".join(str(error).split())
        raise TableError(str(path), found, "a YAML file with a mapping") from error
    name = str(path)
    document = _mapping(document, name, KEYS)
    table = TABLES.get(str(document.get("table")))
    if table is None:
        raise TableError(name, f"table {document.get('table')!r}", f"one of {', '.join(TABLES)}")
    columns = _ours(document.get("columns"), name, table)
    constants = _ours(document.get("constants", {}), name, table)
    both = set(columns) & set(constants)
    if both:
        raise TableError(name, f"{shown(both)} both mapped and constant", "one of the two")
    return TableMapping(
        table,
        {column: _rule(column, entry, name) for column, entry in columns.items()},
        {column: _scalar(entry, f"{name}, {column}") for column, entry in constants.items()},
        tuple(str(model) for model in _list(document.get("gpu_models", []), name)),
    )


def _rule(column: str, entry: object, name: str) -> ColumnRule:
    where = f"{name}, columns.{column}"
    if isinstance(entry, str):
        return ColumnRule(source=entry)
    given = _mapping(entry, where, COLUMN_KEYS)
    if ("from" in given) == ("numbered" in given):
        raise TableError(where, f"the keys {shown(given)}", "either `from` or `numbered`")
    unit = given.get("unit")
    units = units_of(column)
    if unit is not None and unit not in units:
        wanted = f"one of {', '.join(units)}" if units else f"no unit for {column}"
        raise TableError(where, f"unit {unit!r}", wanted)
    words = given.get("values")
    return ColumnRule(
        source=_text(given, "from", where),
        unit=_text(given, "unit", where),
        words=None if words is None else _words(words, where),
        missing=tuple(_scalar(one, where) for one in _list(given.get("missing", []), where)),
        form=_text(given, "format", where),
        zone=_text(given, "zone", where) or "UTC",
        numbered=_text(given, "numbered", where),
    )


def _ours(value: object, name: str, table: Table) -> dict[str, object]:
    given = _mapping(value, name, None)
    unknown = set(given) - set(table.names)
    if unknown:
        raise TableError(name, f"unknown columns {shown(unknown)}", f"columns of {table.name}")
    return given


def _mapping(value: object, where: str, keys: tuple[str, ...] | None) -> dict[str, object]:
    if not isinstance(value, dict):
        raise TableError(where, f"{value!r}", "a mapping" + (f" with {keys[0]}" if keys else ""))
    given = {str(key): entry for key, entry in value.items()}
    if keys is not None and set(given) - set(keys):
        raise TableError(where, f"unknown keys {shown(set(given) - set(keys))}", ", ".join(keys))
    return given


def _words(value: object, where: str) -> dict[str, Scalar]:
    return {word: _scalar(ours, where) for word, ours in _mapping(value, where, None).items()}


def _list(value: object, where: str) -> list[object]:
    if not isinstance(value, list):
        raise TableError(where, f"{value!r}", "a list")
    return cast("list[object]", value)


def _scalar(value: object, where: str) -> Scalar:
    if isinstance(value, str | int | float):
        return value
    raise TableError(where, f"{value!r}", "a text, a number, true or false")


def _text(given: Mapping[str, object], key: str, where: str) -> str | None:
    value = given.get(key)
    if value is None or isinstance(value, str):
        return value
    raise TableError(where, f"{key} {value!r}", "a text")
