"""Who goes first: fair share, then priority with ageing, then predicted remaining GPU time.

Priority and number of submissions count only among the jobs of one user, so neither raising
the one nor the other gets a user more of the cluster (the two attacks of the d.run article).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from heapq import heappop, heappush
from math import inf
from typing import Protocol

from scheduler_client.policy.ledger import Ledger
from scheduler_client.policy.predictions import NO_FORECAST, JobForecast, Predictions
from scheduler_client.policy.view import ClusterView, PendingJob, Queue, UserKey

Share = tuple[bool, float]
Rank = tuple[float, float, float, str]
_UserTurn = tuple[float, Rank, str]
_QueueTurn = tuple[Share, float, Rank, str, str]


@dataclass(frozen=True, slots=True)
class Ageing:
    """How waiting raises a job among those of its user.

    Attributes
    ----------
    step_s : float
        Seconds of waiting that count as one more priority (> 0).
    cap : int
        The most that waiting adds (>= 0).
    """

    step_s: float = 600.0
    cap: int = 10


class Order(Protocol):
    """Hands out pending jobs one by one, knowing what the cycle has given away already."""

    def next(self, ledger: Ledger) -> PendingJob | None:
        """Return the job whose turn it is, each job once; None when all had theirs."""
        ...


class FifoOrder:
    """Submission order, whoever submitted."""

    def __init__(self, view: ClusterView) -> None:
        by_time = sorted(view.pending, key=lambda p: (p.job.submit_time, p.job.job_id))
        self._jobs: Iterator[PendingJob] = iter(by_time)

    def next(self, ledger: Ledger) -> PendingJob | None:
        """Return the oldest job that has not been handed out."""
        del ledger
        return next(self._jobs, None)


class FairOrder:
    """The queue with the lowest weighted share, in it the user who has used least, then rank.

    Notes
    -----
    Weighted share over nominal quota and decayed usage history: Kueue's fair sharing and
    admission fair sharing. Shortest predicted GPU time first within a user: Hu et al.,
    "Helios", SC 2021.
    """

    def __init__(self, view: ClusterView, predictions: Predictions, ageing: Ageing) -> None:
        self._history = view.history_gpus
        self._queues = {queue.name: queue for queue in view.queues}
        self._history_by_queue = _by_queue(view)
        self._ranked: dict[UserKey, list[tuple[Rank, PendingJob]]] = {}
        for pending in view.pending:
            forecast = predictions.get(pending.job.job_id, NO_FORECAST)
            rank = job_rank(pending, forecast, view.now, ageing)
            key = (pending.job.queue, pending.job.user)
            self._ranked.setdefault(key, []).append((rank, pending))
        for ranked in self._ranked.values():
            ranked.sort(key=lambda pair: pair[0], reverse=True)
        self._users: dict[str, list[_UserTurn]] = {}
        self._turns: list[_QueueTurn] = []
        self._stale: set[UserKey] = set(self._ranked)

    def next(self, ledger: Ledger) -> PendingJob | None:
        """Return the best job of the user whose turn it is."""
        self._stale |= ledger.changed()
        self._refresh(ledger)
        while self._turns:
            share, mine, rank, queue, user = heappop(self._turns)
            key = (queue, user)
            if not self._is_current((share, mine, rank, queue, user), ledger):
                continue
            ranked = self._ranked[key]
            _, pending = ranked.pop()
            if not ranked:
                del self._ranked[key]
            self._stale.add(key)
            return pending
        return None

    def _refresh(self, ledger: Ledger) -> None:
        """Rank anew who has been given something, or has had a turn, and their queues."""
        for key in self._stale & self._ranked.keys():
            turn = (*self._user_turn(key, ledger), key[1])
            heappush(self._users.setdefault(key[0], []), turn)
        for queue in {queue for queue, _ in self._stale}:
            users = self._users.get(queue, [])
            while users and not self._is_users_turn(queue, users[0], ledger):
                heappop(users)
            if users:
                heappush(
                    self._turns, (self._share(queue, ledger), *users[0][:2], queue, users[0][2])
                )
        self._stale = set()

    def _is_current(self, turn: "_QueueTurn", ledger: Ledger) -> bool:
        share, mine, rank, queue, user = turn
        users = self._users.get(queue)
        is_first = bool(users) and users is not None and users[0] == (mine, rank, user)
        return is_first and share == self._share(queue, ledger)

    def _is_users_turn(self, queue: str, turn: "_UserTurn", ledger: Ledger) -> bool:
        mine, rank, user = turn
        key = (queue, user)
        return key in self._ranked and (mine, rank) == self._user_turn(key, ledger)

    def _user_turn(self, key: UserKey, ledger: Ledger) -> tuple[float, Rank]:
        mine = ledger.held.get(key, 0.0) + self._history.get(key, 0.0)
        return _rounded(mine), self._ranked[key][-1][0]

    def _share(self, queue: str, ledger: Ledger) -> Share:
        used = ledger.held_by_queue.get(queue, 0.0) + self._history_by_queue.get(queue, 0.0)
        return weighted_share(self._queues.get(queue), used)


def weighted_share(queue: Queue | None, used_gpus: float) -> Share:
    """Return how much of its entitlement a queue uses; the lowest goes first.

    A queue without nominal quota is entitled to nothing: it goes after all that are.

    Examples
    --------
    >>> weighted_share(Queue("research", 4.0, weight=2.0), used_gpus=2.0)
    (False, 0.25)
    >>> weighted_share(Queue("guests", 0.0), used_gpus=1.0)
    (True, 1.0)
    """
    if queue is None or queue.nominal_quota_gpus == 0:
        return True, _rounded(used_gpus / (queue.weight if queue else 1.0))
    return False, _rounded(used_gpus / (queue.nominal_quota_gpus * queue.weight))


def job_rank(pending: PendingJob, forecast: JobForecast, now: float, ageing: Ageing) -> Rank:
    """Return where a job stands among the jobs of its user; the lowest goes first.

    Examples
    --------
    >>> from data.domain import JobRequest
    >>> job = JobRequest("7", "ada", "research", "bert", submit_time=0.0, limit_s=60.0)
    >>> job_rank(PendingJob(job, priority=1), NO_FORECAST, 1300.0, Ageing())
    (-3.0, 60.0, 0.0, '7')
    """
    waited_s = max(0.0, now - pending.job.submit_time)
    aged = min(ageing.cap, waited_s // ageing.step_s)
    remaining_s = remaining_gpu_time_s(pending, forecast)
    return -(pending.priority + aged), remaining_s, pending.job.submit_time, pending.job.job_id


def remaining_gpu_time_s(pending: PendingJob, forecast: JobForecast) -> float:
    """Return `whole_gpu_time_s` less what the job has run (>= 0)."""
    done = pending.job.gpus * pending.job.elapsed_s
    return max(0.0, whole_gpu_time_s(pending, forecast) - done)


def whole_gpu_time_s(pending: PendingJob, forecast: JobForecast) -> float:
    """Return GPUs x predicted whole runtime; else x the requested limit; else infinity."""
    job = pending.job
    if forecast.runtime is not None:
        return job.gpus * forecast.runtime.value
    return inf if job.limit_s is None else job.gpus * job.limit_s


def _by_queue(view: ClusterView) -> dict[str, float]:
    totals: dict[str, float] = {}
    for (queue, _), gpus in view.history_gpus.items():
        totals[queue] = totals.get(queue, 0.0) + gpus
    return totals


def _rounded(gpus: float) -> float:
    # Sums of thirds differ in their last bits by the order of adding; a tie must stay a tie.
    return round(gpus, 9)
