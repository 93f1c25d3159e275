"""The largest slowdown that a placement may be predicted to cause, by the cluster's pressure."""

from dataclasses import dataclass
from enum import StrEnum


class Direction(StrEnum):
    """Whether tolerance rises or falls with pressure."""

    RISING = "rising"
    FALLING = "falling"


@dataclass(frozen=True, slots=True)
class ToleranceRule:
    """How tolerance follows pressure.

    Attributes
    ----------
    direction : Direction
        ``rising``: a busy cluster tolerates more, since waiting is what sharing saves.
        ``falling``: DeepShare's rule, under which a busy cluster tolerates less.
    least, most : float
        Slowdown above 1 that is always, and at most, tolerated; ``0 <= least <= most``. Two
        equal jobs that share a card finish later on average than one after the other as soon
        as the slowdown exceeds 1.5; hence ``most = 0.5``. DeepShare's rule knows no `most`.
    """

    direction: Direction = Direction.RISING
    least: float = 0.1
    most: float = 0.5


def excess(asked_gpus: float, gpus: int) -> float:
    """Return the part of all cards that is asked for on top of one job a card, in [0, 1].

    Examples
    --------
    >>> excess(3, 4), excess(6, 4), excess(90, 4), excess(1, 0)
    (0.0, 0.5, 1.0, 1.0)
    """
    return min(1.0, max(0.0, asked_gpus / gpus - 1)) if gpus else 1.0


def tolerance(pressure: float, rule: ToleranceRule) -> float:
    """Return the slowdown tolerated at `pressure` (a ratio in [0, 1]); 1 is none.

    Notes
    -----
    ``falling`` is ``threshold = max(D_min, 1 - pressure)`` of the DeepShare document, read as a
    loss of speed that a job may suffer.

    Examples
    --------
    >>> tolerance(0.0, ToleranceRule()), tolerance(1.0, ToleranceRule())
    (1.1, 1.5)
    >>> sources = ToleranceRule(Direction.FALLING)
    >>> tolerance(0.25, sources), tolerance(1.0, sources)
    (1.75, 1.1)
    """
    if rule.direction is Direction.FALLING:
        return 1 + max(rule.least, 1 - pressure)
    return 1 + rule.least + (rule.most - rule.least) * pressure
