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


class QuotaCheck:
    """Whether one queue may take more now.

    Parameters
    ----------
    queue : Queue
    queues : mapping of str to Queue
        All of them; those of the same cohort lend and borrow.
    held : mapping of str to float
        GPUs held now, by queue.

    Notes
    -----
    Kueue's arithmetic (ClusterQueue, Cohort): a queue may hold at most nominal quota + borrowing
    limit; what it does not lend out is its own, and the rest of the nominal quotas is the
    cohort's, for whoever comes first.

    Examples
    --------
    >>> queues = {"a": Queue("a", 2, "all", borrowing_limit_gpus=1), "b": Queue("b", 2, "all")}
    >>> check = QuotaCheck(queues["a"], queues, {"a": 2, "b": 1})
    >>> check.allows({"a": 1}), check.allows({"a": 2})
    (True, False)
    """

    def __init__(
        self, queue: Queue, queues: Mapping[str, Queue], held: Mapping[str, float]
    ) -> None:
        self._queue, self._held = queue, held
        same = (q for q in queues.values() if q.cohort == queue.cohort)
        self._members = {queue.name: queue} if queue.cohort is None else {q.name: q for q in same}
        lendable = sum(q.nominal_quota_gpus - unlent_gpus(q) for q in self._members.values())
        self._taken = sum(self._taken_by(name, 0.0) for name in self._members)
        self._most_taken = max(lendable, self._taken)

    @property
    def most_gpus(self) -> float:
        """The most that the queue may ever hold; infinity where it may borrow without limit."""
        return most_gpus(self._queue)

    def allows(self, changes: Changes) -> bool:
        """Return whether the queue may cause these changes.

        Parameters
        ----------
        changes : mapping of str to float
            By queue; the jobs that share a card with a new one hold less of it.
        """
        name = self._queue.name
        if self._held.get(name, 0.0) + changes.get(name, 0.0) > self.most_gpus + SLACK_GPUS:
            return False
        moved = (n for n in changes if n in self._members)
        more = sum(self._taken_by(n, changes[n]) - self._taken_by(n, 0.0) for n in moved)
        return self._taken + more <= self._most_taken + SLACK_GPUS

    def _taken_by(self, name: str, change: float) -> float:
        """Return how much of the cohort's common GPUs a queue holds."""
        return max(0.0, self._held.get(name, 0.0) + change - unlent_gpus(self._members[name]))


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
