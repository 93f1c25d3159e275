"""A job's run cut where its neighbours changed: who was there, on any of its cards."""

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from data.domain import FinishedJob

STRANGER = "unknown"
"""The key of a neighbour of whom only its place is known: nothing can be learnt beside it."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """A part of a run during which nobody came or went.

    Attributes
    ----------
    start_time, finish_time : float
        Seconds since 1970, UTC.
    neighbour_keys : tuple of str
        Sorted; empty while the job was alone on all its cards.
    """

    start_time: float
    finish_time: float
    neighbour_keys: tuple[str, ...] = ()

    @property
    def seconds(self) -> float:
        """How long it lasted."""
        return self.finish_time - self.start_time


def stretches(job: FinishedJob) -> Iterable[Stretch]:
    """Yield the stretches of a run in order of time; time outside every segment is in none.

    Segments of a gang's cards may run in parallel: a moment counts as alone when all its
    cards were. The same key on two cards is taken for one gang; twice on one card, for two jobs.

    Examples
    --------
    >>> from data.domain import Outcome, Segment
    >>> segments = (Segment(0, 4, "g0", "A100"), Segment(4, 10, "g0", "A100", ("bert",)))
    >>> job = FinishedJob("1", 1, "u", "q", "ncf", 1, 0, 0, 10, Outcome.OK, segments)
    >>> [(stretch.seconds, stretch.neighbour_keys) for stretch in stretches(job)]
    [(4, ()), (6, ('bert',))]
    """
    clipped = [
        (max(s.start_time, job.start_time), min(s.finish_time, job.finish_time), s.neighbour_keys)
        for s in job.segments
    ]
    cuts = sorted({moment for start, finish, _ in clipped for moment in (start, finish)})
    cards: list[list[tuple[str, ...]]] = [[] for _ in cuts]
    for start, finish, neighbours in clipped:
        for at in range(bisect_left(cuts, start), bisect_left(cuts, finish)):
            cards[at].append(neighbours)
    for (left, right), met in zip(pairwise(cuts), cards, strict=False):
        if met:
            yield Stretch(left, right, _together(met))


def _together(cards: list[tuple[str, ...]]) -> tuple[str, ...]:
    fullest = max(cards, key=len)
    if len(fullest) > 1:
        return tuple(sorted(fullest))
    return tuple(sorted({key for card in cards for key in card}))
