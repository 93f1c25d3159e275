"""What a queue may hold: nominal quota, borrowing and lending within its cohort.

A GPU counts by the part that is held (see ``Ledger``): two jobs on one card hold half of it
each. So joining a card of one's own queue costs the queue nothing, and joining anybody's costs
the cohort nothing. When a job leaves, its neighbour's part grows, which may lift that queue above
a limit; this stops the queue from starting more, and never stops what runs.
"""

from collections.abc import Mapping
from math import inf

from scheduler_client.policy.view import Queue

SLACK_GPUS = 1e-6  # parts of a card are thirds and halves in binary

Changes = Mapping[str, float]
"""How much more (or less) each queue would hold, by queue name."""


def most_gpus(queue: Queue) -> float:
    """Return nominal quota + borrowing limit; without a cohort nothing is borrowed.

    Examples
    --------
    >>> most_gpus(Queue("a", 2)), most_gpus(Queue("a", 2, "all", borrowing_limit_gpus=1))
    (2, 3)
    """
    if queue.cohort is None:
        return queue.nominal_quota_gpus
    limit = inf if queue.borrowing_limit_gpus is None else queue.borrowing_limit_gpus
    return queue.nominal_quota_gpus + limit


def unlent_gpus(queue: Queue) -> float:
    """Return the part of its nominal quota that a queue never lends out.

    Examples
    --------
    >>> unlent_gpus(Queue("a", 4, "all", lending_limit_gpus=1)), unlent_gpus(Queue("a", 4, "all"))
    (3, 0.0)
    """
    if queue.cohort is None:
        return queue.nominal_quota_gpus
    if queue.lending_limit_gpus is None:
        return 0.0
    return max(0.0, queue.nominal_quota_gpus - queue.lending_limit_gpus)


def is_guaranteed(queue: Queue, held_gpus: float) -> bool:
    """Return whether a queue that holds `held_gpus` holds no more than its nominal quota."""
    return held_gpus <= queue.nominal_quota_gpus + SLACK_GPUS
