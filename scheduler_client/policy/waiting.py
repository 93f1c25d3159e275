"""Why a job that found no cards waits: the refusal that came nearest, with its numbers."""

from scheduler_client.policy.choosing import Choice
from scheduler_client.policy.decisions import Evidence, Reason, Waiting
from scheduler_client.policy.placing import Search
from scheduler_client.policy.quota import most_gpus
from scheduler_client.policy.view import Queue


def waiting(search: Search, choice: Choice, queue: Queue) -> Waiting:
    """Return the dominant reason: that of the cards that came nearest, with the counts of all."""
    order, job = list(Reason), search.job
    reason = max(choice.refused, key=order.index, default=Reason.HEALTH)
    if choice.fitting:  # enough of them, then, were they not too many for the quota together
        reason = Reason.QUOTA if choice.fitting >= job.gpus else Reason.GANG
    refused = choice.refused
    counts = tuple((f"cards_{name}", float(refused[name])) for name in order if refused[name])
    asked = (("gpus", float(job.gpus)), ("cards_fitting", float(choice.fitting)))
    return Waiting(job.job_id, reason, asked + counts + _numbers(reason, search, choice, queue))


def _numbers(reason: Reason, search: Search, choice: Choice, queue: Queue) -> Evidence:
    """Return what was wanted and what was found, for the reasons that are about a number."""
    if reason is Reason.MEMORY and choice.best_free_mem_mib is not None:
        needs = [need for need in search.demand.mem_mib.values() if need is not None]
        wanted = (("needed_mem_mib", float(min(needs))),) if needs else ()
        return (*wanted, ("best_free_mem_mib", float(choice.best_free_mem_mib)))
    if reason is Reason.TOLERANCE and choice.least_slowdown is not None:
        return (("tolerance", search.rules.tolerance), ("least_slowdown", choice.least_slowdown))
    if reason is Reason.QUOTA:
        held = search.board.ledger.held_by_queue.get(queue.name, 0.0)
        return (("held_gpus", held), ("most_gpus", most_gpus(queue)))
    return ()
