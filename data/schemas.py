"""The tables that pass between the parts, and the one check that a frame follows its table.

Every importer and every measurement ends in one of these tables; everything downstream trusts
them. Times are ``float64`` seconds since 1970, UTC; NaN or null means unknown.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np
import pandas as pd

from data.domain import PROFILE_COLUMNS, RATIO_SIGNALS, Outcome
from data.errors import TableError, shown

Kind = Literal["text", "number", "flag"]


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its kind, whether it may be missing, and its closed range."""

    name: str
    kind: Kind
    nullable: bool = False
    low: float = -np.inf
    high: float = np.inf
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Table:
    """A named table: its columns, those that together identify a row, and moments in order."""

    name: str
    columns: tuple[Column, ...]
    key: tuple[str, ...] = ()
    order: tuple[str, ...] = ()

    @property
    def names(self) -> list[str]:
        """Column names, in order."""
        return [column.name for column in self.columns]


def _text(name: str, *, nullable: bool = False, choices: Sequence[str] = ()) -> Column:
    return Column(name, "text", nullable, choices=tuple(choices))


def _number(
    name: str, low: float = -np.inf, high: float = np.inf, *, nullable: bool = False
) -> Column:
    return Column(name, "number", nullable, low, high)


_OUTCOMES = tuple(str(outcome) for outcome in Outcome)
_RATIOS = {f"{name}_mean" for name in RATIO_SIGNALS} | {f"{name}_std" for name in RATIO_SIGNALS}
_SIGNALS = tuple(
    _number(name, 0, 1 if name in _RATIOS else np.inf, nullable=True) for name in PROFILE_COLUMNS
)
TINY = 1e-9  # a speed or a time of a run that was ok lies above zero

PROFILING_RUNS = Table(
    "profiling_runs",
    (
        _text("run_id"),
        _text("job_key"),
        _text("family"),
        _text("gpu_model"),
        _text("neighbour_key", nullable=True),  # null: exclusive
        _text("neighbour_run_id", nullable=True),
        # True only where the allocation record proves that the card was unshared.
        Column("is_exclusive", "flag"),
        # Share of the run during which exactly the named neighbour was there.
        _number("neighbour_overlap", 0, 1, nullable=True),
        _number("jct_s", 0, nullable=True),
        _number("steps_per_s", 0, nullable=True),
        *_SIGNALS,
        # Of a run with neighbours: seconds alone, in which its signals were measured.
        _number("exclusive_s", 0, nullable=True),
        # Mean memory in use on the whole card, all its jobs together: evidence, never an input.
        _number("card_mem_mib", 0, nullable=True),
        _text("outcome", choices=_OUTCOMES),
        _number("start_time", nullable=True),
        _number("finish_time", nullable=True),
    ),
    key=("run_id",),
    order=("start_time", "finish_time"),
)
"""One row a run. Speed is `steps_per_s`, or `jct_s` where steps are not counted."""

PROFILES = Table(
    "profiles",
    (
        _text("job_key"),
        _text("gpu_model"),
        _text("family"),
        *_SIGNALS,
        _number("exclusive_jct_s", 0, nullable=True),
        _number("runs", 1),
        _number("jct_spread", 0, nullable=True),  # (max - min) / median; null for one run
        # Largest (max - min) of the means of any ratio signal; null for one run.
        _number("signal_spread", 0, 1, nullable=True),
        _number("newest_time", nullable=True),  # when the newest of the runs finished
    ),
    key=("job_key", "gpu_model"),
)
"""One row a job key and GPU model: medians over its exclusive runs."""

LABELS = Table(
    "labels",
    (
        _text("run_id"),
        _text("job_key"),
        _text("neighbour_key"),
        _text("gpu_model"),
        _text("family"),
        _text("neighbour_family"),
        _number("slowdown", TINY),
        _number("baseline_runs", 1),
        _number("baseline_spread", 0, nullable=True),  # (max - min) / median of the baseline
        _text("baseline_run_ids"),  # joined by a space
    ),
    key=("run_id",),
)
"""One row a colocated run with a baseline: slowdown = JCT colocated / JCT exclusive."""

JOBS = Table(
    "jobs",
    (
        _text("job_id"),
        _number("attempt", 0),
        _text("user"),
        _text("queue"),
        _text("job_key", nullable=True),
        _number("gpus", 0),
        _number("cpus", 0, nullable=True),
        _number("mem_mib", 0, nullable=True),
        _number("limit_s", 0, nullable=True),
        _number("submit_time"),
        _number("start_time"),
        _number("finish_time"),
        _number("runtime_s", 0),
        _text("outcome", choices=_OUTCOMES),
    ),
    key=("job_id", "attempt"),
    order=("submit_time", "start_time", "finish_time"),
)
"""One row a finished job attempt, as runtime prediction and replay read it."""

MEMORY_RUNS = Table(
    "memory_runs",
    (
        _text("run_id"),
        _text("dataset"),
        _text("family"),
        _text("framework"),
        _text("gpu_model"),
        _text("optimizer"),
        _text("precision"),
        _number("gpus", 1),
        _number("batch_size", 1),
        _number("embedding_rows", 0, nullable=True),
        _number("embedding_width", 0, nullable=True),
        _number("embedding_tables", 0, nullable=True),
        _number("dense_parameters", 0, nullable=True),
        _number("activations", 0, nullable=True),
        _number("depth", 0, nullable=True),
        _number("largest_activation", 0, nullable=True),
        _number("multiply_adds", 0, nullable=True),
        _text("configuration"),  # equal for repeats of the same configuration
        *_SIGNALS,
        _text("outcome", choices=_OUTCOMES),
    ),
    key=("run_id",),
)
"""One row a training run whose structure and memory peak are known; memory and demand."""

SHARE_LABELS = Table(
    "share_labels",
    (_text("job_key"), _text("gpu_model"), _number("share_label", 0, 2)),
    key=("job_key", "gpu_model"),
)
"""Lucid's sharing class of a job: 0 tiny, 1 medium, 2 jumbo (ASPLOS 2023)."""

TABLES = {
    table.name: table
    for table in (PROFILING_RUNS, PROFILES, LABELS, JOBS, MEMORY_RUNS, SHARE_LABELS)
}


def checked(frame: pd.DataFrame, table: Table, source: str) -> pd.DataFrame:
    """Return `frame` with exactly the columns of `table`, in its order and kinds.

    Parameters
    ----------
    frame : DataFrame, any index
        At least the columns of `table` that may not be missing; others are refused.
    table : Table
    source : str
        What to name in errors: the file or the measurement.

    Returns
    -------
    DataFrame with a fresh RangeIndex; text as ``str``, numbers as ``float64``, flags as ``bool``

    Raises
    ------
    TableError
        A column is missing or unknown, a value is missing, of another kind or out of range,
        moments run backwards, or a key occurs twice. Names the first offending row, counted from 1.

    Examples
    --------
    >>> one = Table("one", (Column("gpus", "number", low=1),))
    >>> checked(pd.DataFrame({"gpus": [0.0]}), one, "jobs.csv")
    Traceback (most recent call last):
    data.errors.TableError: jobs.csv, row 1: found gpus = 0.0, wanted a number in [1, inf]
    """
    unknown = set(frame.columns) - set(table.names)
    if unknown:
        raise TableError(source, f"unknown columns {shown(unknown)}", f"columns of {table.name}")
    missing = {c.name for c in table.columns if not c.nullable} - set(frame.columns)
    if missing:
        raise TableError(source, f"no column {shown(missing)}", f"columns of {table.name}")
    frame = frame.reset_index(drop=True)
    series = {column.name: _checked_column(frame, column, source) for column in table.columns}
    result = pd.DataFrame(series, index=frame.index)
    _refuse_backwards(result, table, source)
    _refuse_repeats(result, table, source)
    return result


def _refuse_backwards(frame: pd.DataFrame, table: Table, source: str) -> None:
    for earlier, later in pairwise(table.order):
        backwards = frame[later] < frame[earlier]
        if backwards.any():
            row = int(np.flatnonzero(backwards)[0])
            found = f"{later} = {frame[later].iloc[row]:.3f} before {earlier}"
            wanted = f"{later} not before {frame[earlier].iloc[row]:.3f}"
            raise TableError(source, found, wanted, row + 1)


def _refuse_repeats(frame: pd.DataFrame, table: Table, source: str) -> None:
    twice = frame.duplicated(list(table.key)) if table.key else pd.Series(dtype="bool")
    if twice.any():
        row = int(np.flatnonzero(twice)[0])
        found = " and ".join(f"{name} = {frame[name].iloc[row]!s}" for name in table.key)
        raise TableError(source, f"{found} a second time", "each once", row + 1)


def _checked_column(frame: pd.DataFrame, column: Column, source: str) -> pd.Series:
    values = (
        frame[column.name]
        if column.name in frame.columns
        else pd.Series(np.nan, index=frame.index, dtype="float64")
    )
    convert = {"text": _as_text, "number": _as_number, "flag": _as_flag}[column.kind]
    converted = convert(values, column, source)
    if not column.nullable:
        _refuse(converted.isna(), column, values, source, f"a {column.kind}")
    return converted


def _as_text(values: pd.Series, column: Column, source: str) -> pd.Series:
    if values.isna().all():
        return pd.Series(pd.array([None] * len(values), dtype="str"), index=values.index)
    texts = values.astype("str")
    if column.choices:
        strange = texts.notna() & ~texts.isin(column.choices)
        _refuse(strange, column, values, source, f"one of {', '.join(column.choices)}")
    return texts


def _as_number(values: pd.Series, column: Column, source: str) -> pd.Series:
    numbers = pd.to_numeric(values, errors="coerce").astype("float64")
    _refuse(numbers.isna() & values.notna(), column, values, source, "a number")
    outside = numbers.notna() & ~(numbers.between(column.low, column.high) & np.isfinite(numbers))
    wanted = f"a number in [{column.low:g}, {column.high:g}]"
    _refuse(outside, column, values, source, wanted)
    return numbers


def _as_flag(values: pd.Series, column: Column, source: str) -> pd.Series:
    strange = ~values.isin([True, False])
    _refuse(strange, column, values, source, "true or false")
    return values.astype("bool")


def _refuse(bad: pd.Series, column: Column, values: pd.Series, source: str, wanted: str) -> None:
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise TableError(source, f"{column.name} = {values.iloc[row]}", wanted, row + 1)
