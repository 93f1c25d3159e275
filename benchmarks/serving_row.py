"""One line of the table of serving speed: a ratio, and the absolute numbers behind it."""

from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class Row:
    """One measured number.

    Attributes
    ----------
    name : str
        Short; what a failure names.
    value : float
        What is compared with `target` and `bound`.
    unit : str
    target : float, optional
        What is to be reached; None where nothing is.
    bound : float, optional
        Looser than the target: beyond it a known cause of cost has come back.
    at_least : bool
        Whether target and bound are lower limits.
    beside : str
        The absolute numbers.
    skipped : str
        Why it was not measured; empty if it was.
    """

    name: str
    value: float
    unit: str
    target: float | None = None
    bound: float | None = None
    at_least: bool = False
    beside: str = ""
    skipped: str = ""

    @property
    def holds(self) -> bool | None:
        """Whether the target is reached; None where there is none."""
        return None if self.target is None or self.skipped else self._within(self.target)

    @property
    def has_regressed(self) -> bool:
        """Whether the bound is crossed."""
        return self.bound is not None and not self.skipped and not self._within(self.bound)

    def _within(self, limit: float) -> bool:
        return self.value >= limit if self.at_least else self.value <= limit

    def line(self) -> str:
        """Return the row as it is printed."""
        if self.skipped:
            return f"{self.name:<58} skipped: {self.skipped}"
        sign = ">=" if self.at_least else "<="
        target = "" if self.target is None else f"{sign} {self.target:g}: {self.holds}"
        flag = "  REGRESSED" if self.has_regressed else ""
        return (
            f"{self.name:<58} {self.value:>12,.4g} {self.unit:<7}{target:<16}{flag} {self.beside}"
        )

    def facts(self) -> dict[str, object]:
        """Return the row as it is stored."""
        return {**asdict(self), "holds": self.holds, "has_regressed": self.has_regressed}


def skipped(name: str, reason: str) -> Row:
    """Return a row that was not measured."""
    return Row(name, float("nan"), "", skipped=reason)
