"""Who goes first where attained GPU time orders: least had by levels, then shortest predicted."""

from collections import defaultdict, deque

from scheduler_client.policy.ledger import Ledger
from scheduler_client.policy.predictions import NO_FORECAST, Predictions
from scheduler_client.policy.queue_order import whole_gpu_time_s
from scheduler_client.policy.service_levels import LevelRules, service_key
from scheduler_client.policy.view import ClusterView, PendingJob, UserKey

_Rank = tuple[tuple[int, float], float, str]


class ServiceOrder:
    """Jobs of all queues by level, then by predicted GPU time, at least what they have had.

    Among the jobs of one user priority comes first: they share out the turns that all of them
    have together, so that it gets the user no turn of anybody else's.

    Notes
    -----
    Gu et al., "Tiresias", NSDI 2019 (levels); Hu et al., "Helios", SC 2021 (shortest predicted GPU
    time first).
    """

    def __init__(self, view: ClusterView, predictions: Predictions, rules: LevelRules) -> None:
        ranked: list[tuple[_Rank, PendingJob]] = []
        for pending in view.pending:
            job = pending.job
            forecast = predictions.get(job.job_id, NO_FORECAST)
            key = service_key(pending, whole_gpu_time_s(pending, forecast), rules)
            ranked.append(((key, job.submit_time, job.job_id), pending))
        ranked.sort(key=lambda pair: pair[0])
        by_priority = sorted(ranked, key=lambda pair: (-pair[1].priority, pair[0]))
        self._mine: dict[UserKey, deque[PendingJob]] = defaultdict(deque)
        for _, pending in by_priority:
            self._mine[_owner(pending)].append(pending)
        self._turns = iter([_owner(pending) for _, pending in ranked])

    def next(self, ledger: Ledger) -> PendingJob | None:
        """Return the job whose turn it is."""
        del ledger
        owner = next(self._turns, None)
        return None if owner is None else self._mine[owner].popleft()


def _owner(pending: PendingJob) -> UserKey:
    return pending.job.queue, pending.job.user
