"""A circuit breaker: leaves a failing endpoint alone, and tries it again with one probe."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum


class Circuit(StrEnum):
    """Closed: calls pass. Open: none does. Half open: one probe is on its way."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"


@dataclass(frozen=True, slots=True)
class BreakerRules:
    """When a breaker opens and when it tries again.

    Attributes
    ----------
    failures_to_open : int
        So many failures in a row open it (>= 1).
    rest_s, longest_rest_s : float
        How long it stays open; doubled by every failed probe up to the longest.
    """

    failures_to_open: int = 2
    rest_s: float = 1.0
    longest_rest_s: float = 30.0


class CircuitBreaker:
    """The state of one endpoint; `clock` returns monotonic seconds."""

    def __init__(self, rules: BreakerRules, clock: Callable[[], float]) -> None:
        self._rules, self._clock = rules, clock
        self._failures = 0
        self._rest_s = rules.rest_s
        self._until_s: float | None = None
        self._is_probing = False

    @property
    def circuit(self) -> Circuit:
        """What state it is in now."""
        if self._until_s is None:
            return Circuit.CLOSED
        return Circuit.HALF_OPEN if self._is_probing else Circuit.OPEN

    @property
    def remaining_s(self) -> float:
        """Seconds until the next probe may go; 0 where a call may go now."""
        return 0.0 if self._until_s is None else max(0.0, self._until_s - self._clock())

    def allows(self) -> bool:
        """Return whether a call may go now; in an open circuit the first one is the probe."""
        if self._until_s is None:
            return True
        if self._is_probing or self.remaining_s > 0:
            return False
        self._is_probing = True
        return True

    def succeeded(self) -> None:
        """Take in that a call was answered: everything is as new."""
        self._failures, self._rest_s = 0, self._rules.rest_s
        self._until_s, self._is_probing = None, False

    def failed(self, retry_after_s: float = 0.0) -> None:
        """Take in that a call failed: a failed probe doubles the rest.

        Parameters
        ----------
        retry_after_s : float
            When the endpoint wants to be asked again, if it said so: the circuit opens at once,
            for at least as long, but never longer than the longest rest.
        """
        self._failures += 1
        if self._is_probing:
            self._rest_s = min(self._rules.longest_rest_s, 2 * self._rest_s)
        if self._is_probing or retry_after_s or self._failures >= self._rules.failures_to_open:
            rest_s = max(self._rest_s, min(retry_after_s, self._rules.longest_rest_s))
            self._until_s, self._is_probing = self._clock() + rest_s, False
