"""Cards for one gang: empty ones first, then those with one resident, as a rule allows."""

from collections.abc import Sequence
from itertools import islice

from scheduler_client.replay.simulation import Simulation


def blind_cards(simulation: Simulation, job: int, fits: Sequence[bool]) -> list[int] | None:
    """Return cards for a job, shared where memory allows it, or None if they do not suffice.

    Parameters
    ----------
    fits : sequence of bool, by workload
        Beside which workloads the job has room.
    """
    cards, gpus = simulation.cards, simulation.gpus[job]
    chosen = cards.take_empty(min(gpus, len(cards.empty)))
    for workload in sorted(cards.half_by_kind):
        if len(chosen) < gpus and fits[workload]:
            chosen += islice(cards.half_by_kind[workload], gpus - len(chosen))
    for other in sorted(cards.half_by_gang):
        if len(chosen) < gpus and fits[simulation.workload[other]]:
            chosen += islice(cards.half_by_gang[other], gpus - len(chosen))
    return chosen if len(chosen) == gpus else None
