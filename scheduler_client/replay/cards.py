"""Who is on which card, and which cards have room; kept up to date, never searched."""

from collections.abc import Sequence
from typing import TypeVar

from data.errors import ClusterError

NOBODY = -1
V = TypeVar("V")


class Cards:
    """Equal cards in one pool, at most two jobs on each.

    Cards with one resident are indexed so that a policy finds them without looking at all: by
    the resident's kind where its gang is one card, by job where it is more, since who joins one
    card of a gang slows all of it.

    Parameters
    ----------
    count : int
        Cards of the pool.
    kind : sequence of int
        Of every job of the trace: what tells it from others as a neighbour, at least its
        workload. That of a job on cards must not change.
    gpus : sequence of int
        Of every job of the trace.

    Attributes
    ----------
    empty : list of int
        Cards without residents; the last one is taken first.
    half_by_kind : dict of int to dict of int to int
        Kind to the cards (and their resident) held by one-card jobs alone.
    half_by_gang : dict of int to dict of int to None
        Job to those of its cards that it has for itself.
    """

    def __init__(self, count: int, kind: Sequence[int], gpus: Sequence[int]) -> None:
        self.count = count
        self.empty = list(range(count - 1, -1, -1))
        self.half_by_kind: dict[int, dict[int, int]] = {}
        self.half_by_gang: dict[int, dict[int, None]] = {}
        self._first, self._second = [NOBODY] * count, [NOBODY] * count
        self._kind, self._gpus = kind, gpus

    @property
    def busy(self) -> int:
        """How many cards have a resident."""
        return self.count - len(self.empty)

    def neighbour(self, card: int, job: int) -> int:
        """Return who is beside `job` on `card`, or -1."""
        first = self._first[card]
        return self._second[card] if first == job else first

    def residents(self, card: int) -> list[int]:
        """Return the jobs on `card`, who came first at the front."""
        both = (self._first[card], self._second[card])
        return [job for job in both if job != NOBODY]

    def take_empty(self, count: int) -> list[int]:
        """Return `count` empty cards, which stay empty until `enter`."""
        return self.empty[-count:][::-1] if count else []

    def enter(self, job: int, cards: Sequence[int]) -> list[tuple[int, int]]:
        """Put a job on cards; return those that it shares now, with the neighbour.

        Raises
        ------
        ClusterError
            A card holds two jobs already: a policy chose it wrongly.
        """
        shared, fresh = [], set()
        for card in cards:
            resident = self._first[card]
            if resident == NOBODY:
                self._first[card] = job
                fresh.add(card)
                self._open(card, job)
                continue
            if self._second[card] != NOBODY or resident == job:
                raise ClusterError(f"card {card} has no room for job {job}")
            self._second[card] = job
            self._close(card, resident)
            shared.append((card, resident))
        self._forget_empty(fresh)
        return shared

    def leave(self, job: int, cards: Sequence[int]) -> list[tuple[int, int]]:
        """Take a job from its cards; return those that were shared, with who stays."""
        left = []
        for card in cards:
            other = self.neighbour(card, job)
            self._second[card] = NOBODY
            self._first[card] = other
            if other == NOBODY:
                self._close(card, job)
                self.empty.append(card)
            else:
                self._open(card, other)
                left.append((card, other))
        return left

    def _forget_empty(self, fresh: set[int]) -> None:
        empty = self.empty
        if fresh and set(empty[-len(fresh) :]) == fresh:  # as `take_empty` gives them
            del empty[-len(fresh) :]
        elif fresh:
            self.empty = [card for card in empty if card not in fresh]

    def _open(self, card: int, job: int) -> None:
        if self._gpus[job] == 1:
            self.half_by_kind.setdefault(self._kind[job], {})[card] = job
        else:
            self.half_by_gang.setdefault(job, {})[card] = None

    def _close(self, card: int, job: int) -> None:
        if self._gpus[job] == 1:
            _drop(self.half_by_kind, self._kind[job], card)
        else:
            _drop(self.half_by_gang, job, card)


def _drop(index: dict[int, dict[int, V]], key: int, card: int) -> None:
    half = index[key]
    del half[card]
    if not half:
        del index[key]
