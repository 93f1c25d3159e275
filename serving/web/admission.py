"""Who is answered now, who waits, and who is told at once that it would wait too long.

The routes that only compute run on the event loop, one after the other. Without more, an overload
shows nowhere: requests wait unseen in sockets, and every caller gets a late answer. So a request
whose turn has not come waits in a queue that is bounded by the time it would take to work it off,
as estimated from what requests like those took before. A burst may wait for long; a queue that does
not empty is no burst, and its newcomers may wait for a little only (controlled delay: Nichols and
Jacobson, 2012; for servers Maurer, 2015).
"""

import asyncio
from collections import deque
from dataclasses import dataclass, field
from time import perf_counter

from data.errors import DeadlineError, OverloadedError

SLICE_S = 0.002  # of computing, then the sockets are looked at again
LONGEST_WAIT_S = 0.25  # for a caller that names no deadline
BURST_S = 0.25  # a queue that stands for longer is an overload
OVERLOAD_WAIT_S = 0.03
MOST_WAITING = 64
OVERTAKEN_S = 0.001  # of computing that a newcomer may go before: less than its waiting would cost
UNKNOWN_S = 0.001  # cost of what was not asked before
NEWEST_WEIGHT = 0.2  # of the newest measurement in an estimate


@dataclass(slots=True, eq=False)
class _Waiting:
    ready: asyncio.Future[None]
    cost_s: float
    has_turn: bool = False


@dataclass(slots=True)
class Admission:
    """Turns on the event loop of one worker.

    A request asks `may_go_now`; told no, it awaits `turn`. Either way it calls `done` after.

    Attributes
    ----------
    ahead_s : float
        What a newcomer would wait for, as estimated (s).
    """

    ahead_s: float = 0.0
    _costs_s: dict[tuple[str, int], float] = field(default_factory=dict)
    _waiting: deque[_Waiting] = field(default_factory=deque)
    _stands_since_s: float = 0.0
    _refused_at_s: float = float("-inf")
    _released: int = 0
    _is_release_due: bool = False
    _spent_s: float = 0.0
    _is_slice_over: bool = False

    def may_go_now(self) -> bool:
        """Return whether a request may compute at once: in this slice, before next to nothing.

        Were none to go before another, the first to wait would make all who follow wait too.
        """
        return not self._is_slice_over and self.ahead_s < OVERTAKEN_S

    async def turn(self, path: str, size: int, deadline_s: float, longest_s: float) -> None:
        """Wait for a turn.

        Parameters
        ----------
        path : str
        size : int
            Bytes of the request's body.
        deadline_s : float
            When the caller gives up, on the clock of ``time.perf_counter``.
        longest_s : float
            The longest wait to begin with, unless there is an overload.

        Raises
        ------
        OverloadedError
            At once, if the turn would come too late, or too many wait.
        DeadlineError
            If it did come too late.
        """
        cost_s = self.cost_s(path, size)
        now_s = perf_counter()
        if self._is_overload(now_s):
            longest_s = min(longest_s, OVERLOAD_WAIT_S)
        self._refuse_if_too_late(min(longest_s, deadline_s - now_s - cost_s), now_s)
        mine = _Waiting(asyncio.get_running_loop().create_future(), cost_s)
        self._waiting.append(mine)
        self.ahead_s += cost_s
        self._release_soon()
        try:
            await mine.ready
        finally:
            self._leave(mine)
        if perf_counter() > deadline_s:
            raise DeadlineError("the caller's deadline passed before its turn; ask again")

    def done(self, path: str, size: int, start_s: float) -> None:
        """Take in that a request has computed since `start_s`."""
        took_s, key = perf_counter() - start_s, (path, size.bit_length())
        known_s = self._costs_s.get(key, took_s)
        self._costs_s[key] = known_s + NEWEST_WEIGHT * (took_s - known_s)
        self._spent_s += took_s
        if self._spent_s >= SLICE_S and not self._is_slice_over:
            # What came while it computed is heard before this is called.
            self._is_slice_over = True
            asyncio.get_running_loop().call_soon(self._begin_slice)

    def cost_s(self, path: str, size: int) -> float:
        """Return what a request is expected to take, from others of about its size (s)."""
        return self._costs_s.get((path, size.bit_length()), UNKNOWN_S)

    def _is_overload(self, now_s: float) -> bool:
        """Return whether somebody has waited, or was refused, for as long as no burst lasts."""
        if self.ahead_s == 0.0 and now_s - self._refused_at_s > BURST_S:
            self._stands_since_s = now_s
        return now_s - self._stands_since_s > BURST_S

    def _refuse_if_too_late(self, longest_s: float, now_s: float) -> None:
        # One that nobody is ahead of may always try: no estimate shuts a kind of request out.
        if self.ahead_s > max(0.0, longest_s) or len(self._waiting) >= MOST_WAITING:
            self._refused_at_s = now_s
            raise OverloadedError(
                f"found {len(self._waiting)} requests ahead, {1e3 * self.ahead_s:.0f} ms of work; "
                "wanted an answer in time; ask again later, or another replica"
            )

    def _release_soon(self) -> None:
        if not self._is_release_due and not self._released:
            self._is_release_due = True
            asyncio.get_running_loop().call_soon(self._release)

    def _begin_slice(self) -> None:
        self._is_slice_over = False
        self._spent_s = 0.0

    def _release(self) -> None:
        """Let those compute next that fit a slice; in between, newcomers are seen."""
        self._is_release_due = False
        self._spent_s = 0.0
        left_s = SLICE_S
        while self._waiting and (left_s > 0 or not self._released):
            next_one = self._waiting.popleft()
            left_s -= next_one.cost_s
            next_one.has_turn = True
            self._released += 1
            if not next_one.ready.done():
                next_one.ready.set_result(None)

    def _leave(self, mine: _Waiting) -> None:
        """Forget one that has its turn, or was cancelled before or after it got it."""
        if mine.has_turn:
            self._released -= 1
        else:
            self._waiting.remove(mine)
        self.ahead_s -= mine.cost_s
        if self._waiting:
            self._release_soon()
        elif not self._released:
            self.ahead_s = 0.0  # no rounding error stays
