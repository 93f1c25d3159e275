"""How much a queue may still take: nominal quota, borrowing and lending within its cohort.

A GPU counts by the part that is held (see ``Ledger``): two jobs on one card hold half of it
each. When one of them leaves, the other's part grows, which may lift its queue above a limit;
that stops the queue from starting more and never stops what runs.
"""

from collections.abc import Mapping
from math import inf

from scheduler_client.view import Queue

TOLERANCE_GPUS = 1e-6  # parts of a card are thirds and halves in binary


def headroom_gpus(queue: Queue, queues: Mapping[str, Queue], held: Mapping[str, float]) -> float:
    """Return how many more GPUs `queue` may hold now (>= 0).

    Parameters
    ----------
    queues : mapping of str to Queue
        All of them; those of the same cohort lend and borrow.
    held : mapping of str to float
        GPUs held by queue.

    Notes
    -----
    Kueue's arithmetic (ClusterQueue, Cohort): what a queue does not lend out is its own; the
    rest of the nominal quotas is the cohort's, for whoever comes first; a queue may hold at most
    nominal quota + borrowing limit.

    Examples
    --------
    >>> queues = {"a": Queue("a", 2, "all", borrowing_limit_gpus=1), "b": Queue("b", 2, "all")}
    >>> headroom_gpus(queues["a"], queues, {})
    3.0
    >>> headroom_gpus(queues["a"], queues, {"b": 2})
    2.0
    """
    mine = held.get(queue.name, 0.0)
    if queue.cohort is None:
        return max(0.0, queue.nominal_quota_gpus - mine)
    limit = inf if queue.borrowing_limit_gpus is None else queue.borrowing_limit_gpus
    own_limit = queue.nominal_quota_gpus + limit - mine
    kept_back = max(0.0, unlent_gpus(queue) - mine)
    return max(0.0, min(own_limit, kept_back + _cohort_free_gpus(queue.cohort, queues, held)))


def unlent_gpus(queue: Queue) -> float:
    """Return the part of its nominal quota that a queue never lends out."""
    if queue.cohort is None:
        return queue.nominal_quota_gpus
    if queue.lending_limit_gpus is None:
        return 0.0
    return max(0.0, queue.nominal_quota_gpus - queue.lending_limit_gpus)


def is_guaranteed(queue: Queue, held_gpus: float) -> bool:
    """Return whether a queue that holds `held_gpus` holds no more than its nominal quota."""
    return held_gpus <= queue.nominal_quota_gpus + TOLERANCE_GPUS


def _cohort_free_gpus(cohort: str, queues: Mapping[str, Queue], held: Mapping[str, float]) -> float:
    members = [queue for queue in queues.values() if queue.cohort == cohort]
    lendable = sum(queue.nominal_quota_gpus - unlent_gpus(queue) for queue in members)
    taken = sum(max(0.0, held.get(queue.name, 0.0) - unlent_gpus(queue)) for queue in members)
    return max(0.0, float(lendable - taken))
