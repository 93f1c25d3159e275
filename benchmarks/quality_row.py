"""One line of the table of prediction quality: what was found beside what was to be reached."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from math import isnan

COVERAGE, COVERAGE_OFF, WORST = 0.90, 0.02, 0.80
"""What a 90 % interval is to hold: this share give or take, and so much in the worst tenth."""


@dataclass(frozen=True, slots=True)
class Row:
    """One measured number.

    Attributes
    ----------
    what : str
    value : float
    unit : str
    target : float, optional
        What is to be reached; None where nothing is.
    holds : bool, optional
        Whether it was reached.
    command : str
        That measures it alone.
    baseline : float, optional
        What the best trivial answer reaches.
    """

    what: str
    value: float
    unit: str
    target: float | None
    holds: bool | None
    command: str
    baseline: float | None = None


def at_least(row: Row, target: float) -> Row:
    """Return a plain row with a target that is a lower limit."""
    return replace(row, target=target, holds=row.value >= target)


def at_most(row: Row, target: float) -> Row:
    """Return a plain row with a target that is an upper limit."""
    return replace(row, target=target, holds=row.value <= target)


def plain(what: str, value: float, unit: str, command: str, baseline: float | None = None) -> Row:
    """Return a row without a target."""
    return Row(what, value, unit, None, None, command, baseline)


def interval_rows(what: str, found: Mapping[str, object], command: str) -> Iterator[Row]:
    """Yield what intervals hold, all and in the worst tenth, and what abstaining would spare.

    Parameters
    ----------
    what : str
    found : mapping
        ``coverage_90``, ``coverage_90_worst``, and what `abstention` gives; the latter two are
        left out where they are None.
    command : str
    """
    share = number(found, "coverage_90")
    near = abs(share - COVERAGE) <= COVERAGE_OFF + 1e-9
    yield Row(f"{what}, coverage of the 90 % interval", share, "share", COVERAGE, near, command)
    if found.get("coverage_90_worst") is not None:
        worst = number(found, "coverage_90_worst")
        yield at_least(plain(f"{what}, coverage, worst tenth", worst, "share", command), WORST)
    if found.get("error_outside") is not None:
        outside = 1 - number(found, "in_domain_share")
        yield plain(f"{what}, rows outside what was learnt", outside, "share", command)
        for side in ("inside", "outside"):
            error = number(found, f"error_{side}")
            yield plain(f"{what}, mean error {side}", error, "", command)


def number(found: Mapping[str, object], name: str) -> float:
    """Return a metric as a number, NaN where it is undefined.

    Examples
    --------
    >>> number({"r2": None, "n": 3}, "r2"), number({"r2": None, "n": 3}, "n")
    (nan, 3.0)
    """
    value = found.get(name)
    return float(value) if isinstance(value, int | float) else float("nan")


def row_facts(row: Row) -> dict[str, object]:
    """Return a row as it is stored: plain JSON, whatever numpy made of its numbers.

    Examples
    --------
    >>> import numpy as np
    >>> facts = row_facts(at_least(plain("pairs", np.float64("nan"), "R²", ""), 0.9))
    >>> facts["value"], facts["holds"]
    (None, False)
    """
    holds = None if row.holds is None else bool(row.holds)
    return asdict(row) | {
        "value": _known(row.value),
        "baseline": _known(row.baseline),
        "holds": holds,
    }


def _known(value: float | None) -> float | None:
    return None if value is None or isnan(value) else float(value)


def row_text(row: Row) -> str:
    """Return a row as a line of the printed table.

    Examples
    --------
    >>> row_text(at_least(plain("pairs", 0.91, "R²", "colocast evaluate", 0.4), 0.9))
    '   0.9100 R²      0.9 reached      0.4000  pairs'
    >>> row_text(plain("pairs, MAE", 0.05, "", "colocast evaluate"))
    '   0.0500           -                  -  pairs, MAE'
    """
    target = "-" if row.target is None else f"{row.target:g}"
    holds = {True: "reached", False: "missed", None: ""}[row.holds]
    baseline = "-" if row.baseline is None else f"{row.baseline:.4f}"
    return f"{row.value:9.4f} {row.unit:<6} {target:>4} {holds:<7} {baseline:>11}  {row.what}"


HEADER = f"{'value':>9} {'unit':<6} {'goal':>4} {'':<7} {'trivially':>11}  what"
