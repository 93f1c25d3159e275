"""A cluster in memory with a clock of its own: real slowdowns, exact ends, no waiting.

The tests' fake, and the same interface as the real ones.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

from data.domain import Outcome
from scheduler_client.clusters import EndedRun, Launch
from scheduler_client.policy.occupancy import Occupancy
from scheduler_client.policy.view import CardState

Slowdown = Callable[[str, tuple[str, ...]], float]
"""Job key and neighbour keys (sorted) to the job's slowdown (>= 1)."""


class InMemoryCluster:
    """Runs jobs as amounts of work that neighbours slow down.

    Parameters
    ----------
    cards : sequence of CardState
        All empty.
    work_s : callable
        Launch to its runtime alone, in seconds (> 0).
    slowdown : callable
        See `Slowdown`; on several cards the worst one counts.

    Attributes
    ----------
    now : float
        The cluster's clock (s).
    """

    def __init__(
        self, cards: Sequence[CardState], work_s: Callable[[Launch], float], slowdown: Slowdown
    ) -> None:
        self.now = 0.0
        self._occupancy = Occupancy(cards)
        self._work_s, self._slowdown = work_s, slowdown
        self._left_s: dict[str, float] = {}
        self._started: dict[str, tuple[Launch, float]] = {}
        self._ended: list[EndedRun] = []

    def cards(self) -> tuple[CardState, ...]:
        """Return all cards as they are now."""
        return self._occupancy.cards()

    def start(self, launch: Launch) -> float:
        """Start an attempt now; raises `ClusterError` where a card is unknown or too full."""
        self._occupancy.enter(launch, self.now)
        self._left_s[launch.job_id] = self._work_s(launch)
        self._started[launch.job_id] = (launch, self.now)
        return self.now

    def stop(self, job_ids: Iterable[str], outcome: Outcome, grace_s: float) -> None:
        """End jobs now."""
        del grace_s
        for job_id in job_ids:
            if job_id in self._started:
                self._end(job_id, outcome)

    def poll(self) -> tuple[EndedRun, ...]:
        """Return the runs that have ended since the last call."""
        ended, self._ended = tuple(self._ended), []
        self._occupancy.forget()
        return ended

    def saved_times(self) -> Mapping[str, float]:
        """Return nothing: jobs that are amounts of work save none."""
        return {}

    def next_end(self) -> float | None:
        """Return when the next job will end if nothing changes until then; None if none runs."""
        speeds = self._speeds()
        ends = (self.now + left_s / speeds[job_id] for job_id, left_s in self._left_s.items())
        return min(ends, default=None)

    def advance(self, to: float) -> None:
        """Let the clock run to `to`, ending jobs at the exact moment."""
        while (end := self.next_end()) is not None and end <= to:
            speeds = self._speeds()
            finishing = {j for j, s in self._left_s.items() if self.now + s / speeds[j] <= end}
            self._work(end)
            for job_id in sorted(finishing):
                self._end(job_id, Outcome.OK)
        self._work(max(to, self.now))

    def _work(self, to: float) -> None:
        elapsed_s = to - self.now
        for job_id, speed in self._speeds().items():
            self._left_s[job_id] = max(0.0, self._left_s[job_id] - elapsed_s * speed)
        self.now = to

    def _speeds(self) -> dict[str, float]:
        worst: dict[str, float] = dict.fromkeys(self._started, 1.0)
        for card in self._occupancy.cards():
            for resident in card.residents:
                others = (r.job_key for r in card.residents if r is not resident)
                slowdown = self._slowdown(resident.job_key, tuple(sorted(others)))
                worst[resident.job_id] = max(worst[resident.job_id], slowdown)
        return {job_id: 1 / slowdown for job_id, slowdown in worst.items()}

    def _end(self, job_id: str, outcome: Outcome) -> None:
        launch, start_time = self._started.pop(job_id)
        del self._left_s[job_id]
        self._occupancy.leave(job_id, self.now)
        segments = self._occupancy.segments(job_id, self.now)
        run = EndedRun(job_id, launch.attempt, outcome, start_time, self.now, segments)
        self._ended.append(run)
