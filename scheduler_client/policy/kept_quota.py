"""Nominal quota that is kept for who has a reservation, and who may hold it meanwhile."""

from collections.abc import Iterable, Mapping
from itertools import takewhile

from data.domain import JobRequest
from scheduler_client.policy.ahead import whole_gpus
from scheduler_client.policy.eviction_cost import EvictionHistory
from scheduler_client.policy.ledger import Ledger
from scheduler_client.policy.quota import is_guaranteed
from scheduler_client.policy.reserving import Wanted
from scheduler_client.policy.view import PendingJob, Queue, RunningJob, Whom


class KeptQuota:
    """Quota for which jobs with a reservation wait, as a cycle moves on.

    As long as somebody of a cohort waits so who could not take it back, nobody of it borrows. Of
    its own queue nobody starts who would leave too little of the nominal quota, or a stream of
    small jobs would use up every part that comes free before it is enough for a gang; only that
    quota lies idle until then, and the queue waits for what is its own. So small jobs pass where
    they can give way to the gang.

    Parameters
    ----------
    wanted : iterable of Wanted
        The reservations.
    queues : mapping of str to Queue
    ledger : Ledger
        What is held; it moves on with each admission.
    running : mapping of str to RunningJob
    history : EvictionHistory, optional
        None where nobody is evicted.

    Attributes
    ----------
    whole_gpus : mapping of str to float
        Cards that each queue's running jobs are on.
    """

    def __init__(
        self,
        wanted: Iterable[Wanted],
        queues: Mapping[str, Queue],
        ledger: Ledger,
        running: Mapping[str, RunningJob],
        history: EvictionHistory | None,
    ) -> None:
        self._wanted, self._queues, self._ledger = tuple(wanted), queues, ledger
        self._running, self._history = running, history
        self.whole_gpus = whole_gpus(running.values())

    def refuses(self, pending: PendingJob, queue: Queue) -> bool:
        """Return whether a job would hold quota that is kept for another, one before it."""
        job_id = pending.job.job_id
        before = takewhile(lambda wanted: wanted.pending.job.job_id != job_id, self._wanted)
        return any(self._is_in_the_way(pending, queue, wanted) for wanted in before)

    def is_too_soon(self, gang: JobRequest, queue: Queue) -> bool:
        """Return whether a gang would borrow as long as its queue's jobs are on their cards.

        A card that one of them shares counts whole: a gang cannot take it back.
        """
        held = max(self._held(queue), self.whole_gpus.get(queue.name, 0.0))
        return not is_guaranteed(queue, held + gang.gpus)

    def _is_in_the_way(self, pending: PendingJob, queue: Queue, wanted: Wanted) -> bool:
        other, gpus = wanted.pending.job, pending.job.gpus
        theirs = self._queues.get(other.queue)
        if theirs is None:
            return False
        is_own = theirs.name == queue.name
        if wanted.reservation.card_ids:
            return is_own and self._takes_what_comes_free(gpus, queue, wanted)
        if not is_own and (theirs.cohort is None or theirs.cohort != queue.cohort):
            return False
        if not is_own and theirs.reclaims is Whom.ANY and is_guaranteed(theirs, other.gpus):
            return False  # it takes back what is lent meanwhile
        after = self._held(queue) + gpus
        if is_own and other.gpus <= queue.nominal_quota_gpus:
            if self._may_pass(pending, queue, other):
                return False
            after += other.gpus
        return not is_guaranteed(queue, after) and not self._has_quota(other, theirs)

    def _takes_what_comes_free(self, gpus: int, queue: Queue, wanted: Wanted) -> bool:
        """Return whether nominal quota would no longer do for one whose victims are leaving."""
        victims = (self._running.get(victim) for victim in wanted.reservation.victims)
        leaving = [job for job in victims if job is not None]
        if not leaving:
            return False
        own = sum(len(job.card_ids) for job in leaving if job.queue == queue.name)
        after = self._held(queue) - own + wanted.pending.job.gpus
        return is_guaranteed(queue, after) and not is_guaranteed(queue, after + gpus)

    def _may_pass(self, pending: PendingJob, queue: Queue, gang: JobRequest) -> bool:
        """Return whether a job may hold what a gang of its queue cannot have yet.

        It gives way once the gang can (`giving_way`), as often as a job is evicted at most.
        """
        if self._history is None or queue.preempts is Whom.NEVER:
            return False
        is_worn = self._history.is_worn(pending.job.job_id)
        is_within = is_guaranteed(queue, self._held(queue) + pending.job.gpus)
        return self.is_too_soon(gang, queue) and is_within and not is_worn

    def _has_quota(self, job: JobRequest, queue: Queue) -> bool:
        """Return whether a job waits for cards alone."""
        return self._ledger.book.allows(queue.name, {queue.name: float(job.gpus)})

    def _held(self, queue: Queue) -> float:
        return self._ledger.held_by_queue.get(queue.name, 0.0)
