"""One cycle: order, quota, filter, score, tolerance, admissions. Same view, same answer."""

from scheduler_client.policy.clearing import evictions_for, reservations_after
from scheduler_client.policy.decisions import Admission, Decision, Waiting
from scheduler_client.policy.predictions import Predictions
from scheduler_client.policy.rules import PolicyRules
from scheduler_client.policy.turns import Turns
from scheduler_client.policy.view import ClusterView, PendingJob

__all__ = ["PolicyRules", "decide"]


def decide(view: ClusterView, predictions: Predictions, rules: PolicyRules) -> Decision:
    """Choose what starts now, and who must end for whom, from the view and predictions alone.

    Jobs that cards are kept for have their turn first. Then every pending job has its turn once;
    one that cannot start is passed by those behind it (Kueue's ``BestEffortFIFO``).

    Returns
    -------
    Decision
        Admissions in starting order; every other pending job with the reason why it waits.
    """
    cycle = Turns(view, predictions, rules)
    admissions: list[Admission] = []
    waits: list[tuple[PendingJob, Waiting]] = []
    for pending in cycle.in_order():
        answer = cycle.answer(pending)
        if isinstance(answer, Admission):
            admissions.append(answer)
            cycle.admit(pending, answer)
        else:
            waits.append((pending, answer))
    evictions = evictions_for(waits, cycle)
    return Decision(
        admissions=tuple(admissions),
        waiting=tuple(waiting for _, waiting in waits),
        evictions=evictions,
        reservations=reservations_after(waits, evictions, cycle),
    )
