"""How much of a cycle is left for predictions, and whether asking on still makes sense."""

from data.errors import PredictionError
from scheduler_client.events import log_event, log_fault
from scheduler_client.policy.decisions import Level

LEAST_TIME_S = 0.005
"""With less than this left in a cycle, nothing more is asked."""

MARGIN = 1.25
"""Questions differ: so much of what the last one took is kept for the next."""


class Asking:
    """One cycle's questions: they share a deadline, and end with the first outage.

    Parameters
    ----------
    deadline_s : float
        Moment on the monotonic clock at which every answer must be here.
    last_call_s : float
        Moment after which nothing more is asked.

    Attributes
    ----------
    error : PredictionError, optional
        The outage that ended them.
    lacks_model : bool
        Whether the endpoint answered, but with nothing that a model said.
    was_answered : bool
        Whether any was answered.
    left_unknown : bool
        Whether something that nobody knows was not asked, for want of time or after an outage.
    """

    def __init__(self, deadline_s: float, last_call_s: float = float("inf")) -> None:
        self._deadline_s, self._last_call_s = deadline_s, last_call_s
        self.error: PredictionError | None = None
        self.lacks_model = False
        self.was_answered = False
        self.left_unknown = False

    @property
    def fault(self) -> str | None:
        """What is wrong with the endpoint, or None."""
        if self.error is not None:
            return str(self.error)
        return "no model answers; its /readyz says why" if self.lacks_model else None

    def may_go(self, now_s: float, expected_s: float = 0.0) -> bool:
        """Return whether to ask one more question, which takes about `expected_s`.

        One that is cut off for want of time would look like an outage. But a cycle's first
        question always goes: else one slow answer would be the last that was ever asked for.
        """
        needed_s = MARGIN * expected_s if self.was_answered else 0.0
        has_time = self.left_s(now_s) > max(LEAST_TIME_S, needed_s)
        return self.error is None and has_time and now_s <= self._last_call_s

    def rest(self) -> "Asking":
        """Return the questions that may still be asked after the last call."""
        after = Asking(self._deadline_s)
        after.error, after.left_unknown = self.error, self.left_unknown
        return after

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
