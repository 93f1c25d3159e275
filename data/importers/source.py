"""A source file's columns, each checked once while it is converted to our units."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from zoneinfo import ZoneInfoNotFoundError

import numpy as np
import pandas as pd

from data.errors import SettingError, TableError, shown
from data.importers.gpu_models import canonical_gpu_model, is_known_gpu_model
from data.tables import read_frame

FEW = 3  # a handful of small percentages may truly all lie below 1


@dataclass(frozen=True, slots=True)
class SourceTable:
    """The rows of one file, and what to call the file in errors.

    Attributes
    ----------
    frame : DataFrame with a RangeIndex
        As read; row 0 is reported as row 1, the first below the header.
    name : str
        The path, as the user wrote it.
    """

    frame: pd.DataFrame
    name: str

    @classmethod
    def read(
        cls, path: Path, columns: Collection[str], texts: Collection[str] = ()
    ) -> "SourceTable":
        """Return the table in `path`; of a csv file, the columns in `texts` literally.

        Raises
        ------
        TableError
            The file cannot be read, has no rows or lacks one of `columns`.
        """
        frame = read_frame(path, texts)
        missing = set(columns) - set(frame.columns)
        if missing:
            found = f"no column {shown(missing)} (there are {shown(frame.columns)})"
            raise TableError(str(path), found, f"columns {', '.join(columns)}")
        return cls(frame, str(path))

    def refuse(self, bad: pd.Series, column: str, wanted: str) -> None:
        """Raise a TableError for the first row in which `bad` is true, if there is one."""
        if bad.any():
            row = int(np.flatnonzero(bad)[0])
            value = self.frame[column].iloc[row]
            raise TableError(self.name, f"{column} = {value!s}", wanted, row + 1)

    def text(self, column: str) -> pd.Series:
        """Return a column of texts, none missing; whole numbers lose no digit."""
        values = self.frame[column]
        self.refuse(values.isna(), column, "a text")
        return values.astype("str").str.strip()

    def choice(self, column: str, names: Mapping[str, str]) -> pd.Series:
        """Return a column with each of the source's words translated by `names`."""
        texts = self.text(column)
        self.refuse(~texts.isin(list(names)), column, f"one of {', '.join(names)}")
        return texts.map(names)

    def number(
        self,
        column: str,
        low: float = -np.inf,
        high: float = np.inf,
        *,
        missing: Collection[float] = (),
        nullable: bool = False,
    ) -> pd.Series:
        """Return a column of finite numbers in [`low`, `high`]; `missing` values become NaN."""
        values = self.frame[column]
        numbers = pd.to_numeric(values, errors="coerce").astype("float64")
        self.refuse(numbers.isna() & values.notna(), column, "a number")
        if not nullable:
            self.refuse(numbers.isna(), column, "a number, not missing")
        numbers = numbers.mask(numbers.isin(list(missing)))
        outside = numbers.notna() & ~(numbers.between(low, high) & np.isfinite(numbers))
        self.refuse(outside, column, f"a number in [{low:g}, {high:g}]")
        return numbers

    def positive(self, column: str) -> pd.Series:
        """Return a column of finite numbers above zero."""
        numbers = self.number(column, 0)
        self.refuse(numbers == 0, column, "a number above 0")
        return numbers

    def whole(self, column: str, low: float = 0) -> pd.Series:
        """Return a column of whole numbers of at least `low`."""
        numbers = self.number(column, low)
        self.refuse(numbers % 1 != 0, column, "a whole number")
        return numbers

    def percent(
        self, column: str, *, missing: Collection[float] = (), nullable: bool = False
    ) -> pd.Series:
        """Return a column of percentages as ratios in [0, 1].

        Raises
        ------
        TableError
            A value lies outside [0, 100], or the whole column lies in [0, 1] and so is a ratio
            already.
        """
        numbers = self.number(column, 0, 100, missing=missing, nullable=nullable)
        used = numbers[numbers > 0]
        if len(used) >= FEW and used.max() <= 1:
            found = f"{column} between {used.min():g} and {used.max():g}"
            raise TableError(self.name, found, "percent in [0, 100]; these look like ratios")
        return numbers / 100

    def typical(self, numbers: pd.Series, column: str, low: float, high: float, unit: str) -> None:
        """Raise a TableError if the median of `numbers` cannot be in `unit`."""
        median = numbers.median()
        if median < low or median > high:
            found = f"{column} with the median {median:g}"
            raise TableError(self.name, found, f"{unit}, typically in [{low:g}, {high:g}]")

    def moment(
        self, column: str, *, zone: str = "UTC", form: str | None = None, nullable: bool = False
    ) -> pd.Series:
        """Return a column of dates as seconds since 1970, UTC.

        Parameters
        ----------
        column : str
            Dates as texts or as timestamps. What carries its own offset ignores `zone`.
        zone : str
            IANA name of the zone of a wall clock without offset. In a repeated hour the second
            one is meant, and a skipped hour is moved forward.
        form : str, optional
            ``strptime`` format; ISO 8601 without one.
        """
        values = self.frame[column]
        if not nullable:
            self.refuse(values.isna(), column, "a date, not missing")
        dates = values
        if not isinstance(values.dtype, pd.DatetimeTZDtype) and values.dtype.kind != "M":
            texts = values.astype("str").where(values.notna())
            aware = texts.str.contains(r"(?:Z|[+-]\d\d:?\d\d)$", regex=True, na=False)
            dates = pd.to_datetime(
                texts, errors="coerce", format=form or "ISO8601", utc=bool(aware.any())
            )
            self.refuse(dates.isna() & values.notna(), column, f"a date as {form or 'ISO 8601'}")
        if dates.dt.tz is None:
            dates = _localized(dates, zone)
        return (dates - pd.Timestamp(0, tz="UTC")) / pd.Timedelta(seconds=1)

    def gpu_model(self, column: str, extra: Collection[str] = ()) -> pd.Series:
        """Return a column of GPU models under the spelling that colocast uses."""
        models = self.text(column).map(canonical_gpu_model)
        known = {model for model in models.unique() if is_known_gpu_model(model, extra)}
        self.refuse(~models.isin(list(known)), column, "a known GPU model, such as v100 or a100")
        return models

    def unique(self, columns: Collection[str]) -> None:
        """Raise a TableError for the first row that repeats an earlier one in `columns`."""
        names = list(columns)
        twice = self.frame.duplicated(names)
        if twice.any():
            row = int(np.flatnonzero(twice)[0])
            found = ", ".join(f"{name} = {self.frame[name].iloc[row]!s}" for name in names)
            raise TableError(self.name, f"{found} a second time", "each once", row + 1)


def _localized(dates: pd.Series, zone: str) -> pd.Series:
    ambiguous = np.zeros(len(dates), dtype=bool)  # False: not summer time
    try:
        localized: pd.Series = dates.dt.tz_localize(
            zone, ambiguous=ambiguous, nonexistent="shift_forward"
        )
    except (KeyError, ZoneInfoNotFoundError) as error:
        raise SettingError(
            f"zone must be an IANA name such as Europe/Berlin, got {zone!r}"
        ) from error
    return localized
