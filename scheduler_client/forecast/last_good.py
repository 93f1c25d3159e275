"""Answers of the service, with their age: fresh ones save asking, older ones bridge an outage."""

from collections.abc import Iterable
from dataclasses import dataclass

from data.domain import Estimate, Placement
from scheduler_client.policy.predictions import CardClass, Colocation, JobClass

KEPT = 200_000


@dataclass(frozen=True, slots=True)
class Known:
    """What the service once answered for a job class on a card class.

    Attributes
    ----------
    answered_s : float
        When, on the monotonic clock.
    """

    colocation: Colocation
    memory: Estimate
    answered_s: float


class LastGood:
    """The newest good answer for every pair of classes, until it is too old.

    Parameters
    ----------
    fresh_s, last_good_s : float
        Up to which age an answer counts as fresh, and as usable at all.
    """

    def __init__(self, fresh_s: float, last_good_s: float) -> None:
        self._fresh_s, self._last_good_s = fresh_s, max(fresh_s, last_good_s)
        self._known: dict[tuple[JobClass, CardClass], Known] = {}

    def put(self, job: JobClass, card: CardClass, placement: Placement, now_s: float) -> None:
        """Remember an answer."""
        colocation = Colocation(placement.job_slowdown, placement.neighbour_slowdowns)
        key = (job, card)
        self._known.pop(key, None)
        self._known[key] = Known(colocation, placement.memory, now_s)  # newest at the end
        while len(self._known) > KEPT:
            del self._known[next(iter(self._known))]

    def usable(
        self, job: JobClass, cards: Iterable[CardClass], now_s: float
    ) -> dict[CardClass, Known]:
        """Return the answers for `cards` that are not too old, by card class."""
        found = ((card, self._known.get((job, card))) for card in cards)
        return {
            card: known
            for card, known in found
            if known is not None and now_s - known.answered_s <= self._last_good_s
        }

    def missing(
        self, job: JobClass, cards: Iterable[CardClass], now_s: float
    ) -> tuple[CardClass, ...]:
        """Return those of `cards` for which there is no fresh answer."""
        usable = self.usable(job, cards, now_s)
        return tuple(
            card
            for card in cards
            if card not in usable or now_s - usable[card].answered_s > self._fresh_s
        )
