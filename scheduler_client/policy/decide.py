"""One cycle: order, quota, filter, score, tolerance, admissions. Same view, same answer."""

from scheduler_client.policy.assigning import Placing, better_cards
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
    admitted: list[tuple[PendingJob, Admission]] = []
    waits: list[tuple[PendingJob, Waiting]] = []
    for pending in cycle.in_order():
        answer = cycle.answer(pending)
        if isinstance(answer, Admission):
            admitted.append((pending, answer))
            cycle.admit(pending, answer)
        else:
            waits.append((pending, answer))
    if rules.assignment == "joint" and rules.asks:
        cycle, admitted = _exchanged(Turns(view, predictions, rules), cycle, admitted)
    admissions = [admission for _, admission in admitted]
    cleared = evictions_for(waits, cycle)
    return Decision(
        admissions=tuple(admissions),
        waiting=tuple(waiting for _, waiting in waits),
        evictions=tuple(eviction for eviction in cleared if eviction.victims),
        reservations=reservations_after(waits, cleared, cycle),
    )


def _exchanged(
    fresh: Turns, played: Turns, admitted: list[tuple[PendingJob, Admission]]
) -> tuple[Turns, list[tuple[PendingJob, Admission]]]:
    """Return the admissions with cards exchanged, and the turns as they then are."""
    moved = better_cards([Placing(a, fresh.search(pending)) for pending, a in admitted])
    if not moved:
        return played, admitted
    final = []
    for pending, admission in admitted:
        card_id = moved.get(admission.job_id)
        changed = fresh.on_card(admission, pending, card_id) if card_id else admission
        fresh.admit(pending, changed)
        final.append((pending, changed))
    return fresh, final
