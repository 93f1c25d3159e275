"""Any csv or parquet table, by a mapping that the user wrote."""

from pathlib import Path

import pandas as pd

from data.errors import TableError
from data.importers.mapping import ColumnRule, TableMapping, read_mapping
from data.importers.source import SourceTable
from data.importers.units import units_of
from data.schemas import Column, checked

FLAGS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def read(path: Path, mapping_path: Path) -> dict[str, pd.DataFrame]:
    """Return the table that a mapping makes of a file.

    Parameters
    ----------
    path : Path
        A csv, csv.gz or parquet file.
    mapping_path : Path
        See ``data.importers.mapping.read_mapping``.

    Returns
    -------
    dict with the one table that the mapping names
        Of ``start_time``, ``finish_time`` and ``runtime_s``, one that is not mapped follows from
        the other two.

    Raises
    ------
    TableError
        The mapping has an error, or a column is missing, or a value is missing, out of range or
        in another unit.
    """
    mapping = read_mapping(mapping_path)
    source = SourceTable.read(path, mapping.sources, mapping.texts)
    columns = {column.name: column for column in mapping.table.columns}
    values: dict[str, object] = {
        name: _converted(source, columns[name], rule, mapping)
        for name, rule in mapping.columns.items()
    }
    frame = pd.DataFrame(values | dict(mapping.constants), index=source.frame.index)
    frame = _completed(frame, set(columns))
    return {mapping.table.name: checked(frame, mapping.table, source.name)}


def _converted(
    source: SourceTable, column: Column, rule: ColumnRule, mapping: TableMapping
) -> pd.Series:
    if rule.source is None:
        rows = pd.Series(source.frame.index + 1, index=source.frame.index).astype("str")
        return rows.map((f"{rule.numbered}-" + "{}").format)
    known = _without(source, rule)
    if rule.words is not None:
        return _translated(known, rule)
    if column.kind == "text":
        return _texts(known, column, rule, mapping)
    if column.kind == "flag":
        flags = known.text(rule.source).str.lower().map(FLAGS)
        known.refuse(flags.isna(), rule.source, "true or false")
        return flags.astype("bool")
    return _numbers(known, column, rule)


def _without(source: SourceTable, rule: ColumnRule) -> SourceTable:
    """Return the rows of `source` with the values that mean "unknown" missing."""
    if rule.source is None or not rule.missing:
        return source
    values = source.frame[rule.source]
    unknown = values.isin(list(rule.missing)) | values.astype("str").isin(map(str, rule.missing))
    return SourceTable(source.frame.assign(**{rule.source: values.mask(unknown)}), source.name)


def _translated(source: SourceTable, rule: ColumnRule) -> pd.Series:
    column, words = str(rule.source), rule.words or {}
    values = source.frame[column]
    texts = values.astype("str").where(values.notna())
    source.refuse(texts.notna() & ~texts.isin(list(words)), column, f"one of {', '.join(words)}")
    ours: pd.Series = texts.map(words)
    return ours


def _texts(
    source: SourceTable, column: Column, rule: ColumnRule, mapping: TableMapping
) -> pd.Series:
    name = str(rule.source)
    if column.name == "gpu_model":
        return source.gpu_model(name, mapping.gpu_models)
    if column.nullable:
        values = source.frame[name]
        return values.astype("str").where(values.notna())
    return source.text(name)


def _numbers(source: SourceTable, column: Column, rule: ColumnRule) -> pd.Series:
    name = str(rule.source)
    if column.name.endswith("_time") and rule.unit is None:
        return _moments(source, column, rule)
    numbers = source.number(name, nullable=column.nullable)
    units = units_of(column.name)
    if rule.unit == "percent":
        return source.percent(name, nullable=column.nullable)
    converted = numbers * units[rule.unit] if rule.unit is not None else numbers
    outside = converted.notna() & ~converted.between(column.low, column.high)
    wanted = f"{column.name} in [{column.low:g}, {column.high:g}]"
    source.refuse(
        outside, name, f"{wanted} after conversion from {rule.unit}" if rule.unit else wanted
    )
    return converted


def _moments(source: SourceTable, column: Column, rule: ColumnRule) -> pd.Series:
    name = str(rule.source)
    values = source.frame[name]
    if pd.api.types.is_numeric_dtype(values) and rule.form is None:
        wanted = "a date, or `unit: s` (or ms) in the mapping for seconds since 1970"
        raise TableError(source.name, f"numbers in {name}", wanted)
    return source.moment(name, zone=rule.zone, form=rule.form, nullable=column.nullable)


def _completed(frame: pd.DataFrame, ours: set[str]) -> pd.DataFrame:
    """Return `frame` with the third of start, finish and runtime, where two are known."""
    if "runtime_s" not in ours:
        return frame
    given = set(frame.columns)
    if {"start_time", "finish_time"} <= given and "runtime_s" not in given:
        return frame.assign(runtime_s=frame["finish_time"] - frame["start_time"])
    if {"start_time", "runtime_s"} <= given and "finish_time" not in given:
        return frame.assign(finish_time=frame["start_time"] + frame["runtime_s"])
    if {"finish_time", "runtime_s"} <= given and "start_time" not in given:
        return frame.assign(start_time=frame["finish_time"] - frame["runtime_s"])
    return frame
