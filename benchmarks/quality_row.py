"""One line of the table of prediction quality."""

from dataclasses import asdict, dataclass


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
    """

    what: str
    value: float
    unit: str
    target: float | None
    holds: bool | None
    command: str


def at_least(what: str, value: float, target: float, command: str, unit: str = "R²") -> Row:
    """Return a row whose target is a lower limit."""
    return Row(what, value, unit, target, value >= target, command)


def at_most(what: str, value: float, target: float, command: str, unit: str) -> Row:
    """Return a row whose target is an upper limit."""
    return Row(what, value, unit, target, value <= target, command)


def plain(what: str, value: float, unit: str, command: str) -> Row:
    """Return a row without a target."""
    return Row(what, value, unit, None, None, command)


def row_facts(row: Row) -> dict[str, object]:
    """Return a row as it is stored."""
    return asdict(row)
