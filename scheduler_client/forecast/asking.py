"""How much of a cycle is left for predictions, and whether asking on still makes sense."""

from data.errors import PredictionError
from scheduler_client.events import log_event, log_fault
from scheduler_client.policy.decisions import Level

LEAST_TIME_S = 0.005
"""With less than this left in a cycle, nothing more is asked."""


class Asking:
    """One cycle's questions: they share a deadline, and end with the first outage.

    Attributes
    ----------
    error : PredictionError, optional
        The outage that ended them.
    lacks_model : bool
        Whether the endpoint answered, but with nothing that a model said.
    was_answered : bool
        Whether any was answered.
    """

    def __init__(self, deadline_s: float) -> None:
        self._deadline_s = deadline_s
        self.error: PredictionError | None = None
        self.lacks_model = False
        self.was_answered = False

    @property
    def fault(self) -> str | None:
        """What is wrong with the endpoint, or None."""
        if self.error is not None:
            return str(self.error)
        return "no model answers; its /readyz says why" if self.lacks_model else None

    def may_go(self, now_s: float) -> bool:
        """Return whether to ask one more."""
        return self.error is None and self.left_s(now_s) > LEAST_TIME_S

    def left_s(self, now_s: float) -> float:
        """Return the seconds left, by the monotonic clock."""
        return self._deadline_s - now_s


class LevelWatch:
    """Says once when the level of the answers to a question changes.

    Attributes
    ----------
    level : Level
        At which the question was answered last.
    """

    def __init__(self, question: str) -> None:
        self._question = question
        self.level = Level.MODEL

    def observe(self, level: Level, asking: Asking) -> None:
        """Take in a cycle's level.

        Only an outage degrades (not a refused question, not a cycle that was too short), and
        only an answer recovers.
        """
        if level is Level.MODEL:
            is_news = asking.was_answered and asking.fault is None
        else:
            is_news = asking.fault is not None
        if not is_news or level is self.level:
            return
        self.level = level
        if level is Level.MODEL:
            log_event("recovered", question=self._question, level=level)
        else:
            log_fault("degraded", question=self._question, level=level, error=asking.fault)
