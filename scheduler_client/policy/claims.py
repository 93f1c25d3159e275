"""What queues may claim of their nominal quotas now, and what that leaves for a borrower."""

from collections import Counter

from data.domain import JobRequest
from scheduler_client.policy.ledger import Ledger
from scheduler_client.policy.quota import SLACK_GPUS, is_guaranteed, unlent_gpus
from scheduler_client.policy.view import ClusterView, Queue, Whom


class Claims:
    """The GPUs that every queue has a right to now: what it holds and asks for, up to its quota.

    A gang that is larger than its queue's nominal quota claims nothing: it can only borrow. Nor
    does a queue that takes nothing back.

    Parameters
    ----------
    view : ClusterView
    ledger : Ledger
        What is held.

    Examples
    --------
    >>> from scheduler_client.policy.view import PendingJob
    >>> queues = tuple(Queue(name, 2.0, "all", reclaims=Whom.ANY) for name in "ab")
    >>> small, gang = (JobRequest(f"{n}", "ada", "a", "bert", 0.0, gpus=n) for n in (1, 3))
    >>> view = ClusterView(0.0, (), (PendingJob(small), PendingJob(gang)), queues=queues)
    >>> claims = Claims(view, Ledger(view))
    >>> claims.leave_room_for(gang), claims.others_ask(queues[0]), claims.others_ask(queues[1])
    (True, False, True)
    >>> theirs = JobRequest("b", "bob", "b", "bert", 0.0, gpus=2)
    >>> view = ClusterView(0.0, (), (PendingJob(gang), PendingJob(theirs)), queues=queues)
    >>> Claims(view, Ledger(view)).leave_room_for(gang)
    False
    """

    def __init__(self, view: ClusterView, ledger: Ledger) -> None:
        self._queues = {queue.name: queue for queue in view.queues}
        self._book, held = ledger.book, ledger.held_by_queue
        self._asked = Counter[str]()
        for pending in view.pending:
            job, queue = pending.job, self._queues.get(pending.job.queue)
            if queue is not None and _can_claim(queue) and is_guaranteed(queue, job.gpus):
                self._asked[queue.name] += job.gpus
        self._claimed = {
            queue.name: min(
                queue.nominal_quota_gpus, held.get(queue.name, 0.0) + self._asked[queue.name]
            )
            for queue in view.queues
            if queue.reclaims is not Whom.NEVER
        }

    def leave_room_for(self, job: JobRequest) -> bool:
        """Return whether a job could ever start beside all that others have a right to now.

        Once its own queue's jobs have ended; within its nominal quota it has a right itself.
        Cards are kept for it only then: what is kept for a borrower is kept from other borrowers,
        never from its owners, and who borrows while it can not is in nobody's way.
        """
        queue = self._queues.get(job.queue)
        if queue is None or not self._book.could_ever_hold(job.queue, job.gpus):
            return False
        if queue.cohort is None or is_guaranteed(queue, job.gpus):
            return True
        cohort = [other for other in self._queues.values() if other.cohort == queue.cohort]
        claimed = sum(
            max(unlent_gpus(other), self._claimed.get(other.name, 0.0))
            for other in cohort
            if other.name != queue.name
        )
        return job.gpus + claimed <= sum(q.nominal_quota_gpus for q in cohort) + SLACK_GPUS

    def others_ask(self, queue: Queue) -> bool:
        """Return whether a job waits that could take back what this queue borrows."""
        return any(
            self._asked[other.name] and other.cohort == queue.cohort
            for other in self._queues.values()
            if other.name != queue.name
        )


def _can_claim(queue: Queue) -> bool:
    return queue.reclaims is not Whom.NEVER and not queue.is_held
