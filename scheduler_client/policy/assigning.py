"""Several jobs of one cycle at once: who goes to which of the cards that were found for them."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from scheduler_client.policy.decisions import Admission
from scheduler_client.policy.placing import Search, judged
from scheduler_client.policy.scoring import Candidate, cost

Floats = npt.NDArray[np.float64]

LEAST_GAIN = 1e-9
"""What differs by less is rounding; then everybody keeps the card that was found first."""


@dataclass(frozen=True, slots=True)
class Placing:
    """A job that was admitted, and what its turn was about."""

    admission: Admission
    search: Search


def minimum_contention(costs: Floats) -> list[int]:
    """Return which card each job gets, so that all together cost least.

    Parameters
    ----------
    costs : array of shape (n_jobs, n_cards), float64, n_cards >= n_jobs
        What each job on each card costs; infinity where it may not go.

    Returns
    -------
    list of int, of length n_jobs
        A different card for every job.

    Raises
    ------
    ValueError
        If the jobs cannot all be placed.

    Notes
    -----
    The objective and the constraints of the Sparse document, ``minimise the sum of
    Interference(job_i, job_j) * X_ij`` under GPU memory and affinity; solved by scipy
    (Crouse, "On implementing 2D rectangular assignment algorithms", IEEE TAES 2016).

    Examples
    --------
    >>> minimum_contention(np.array([[0.1, 0.2], [0.1, 0.9]]))
    [1, 0]
    """
    # Here, since scipy.optimize takes 42 MB, and only a scheduler that asks for it pays them.
    from scipy.optimize import linear_sum_assignment  # noqa: PLC0415

    jobs, cards = linear_sum_assignment(costs)
    return [int(card) for _, card in sorted(zip(jobs, cards, strict=True))]


def better_cards(placings: Sequence[Placing]) -> dict[str, str]:
    """Return other cards for jobs of one queue where that lowers what they cost together.

    Exchanged are only cards that one job of this cycle came to, among jobs of the same queue that
    want one card each: so nobody holds more or less than before, and no quota is touched.

    Parameters
    ----------
    placings : sequence of Placing
        All admissions of a cycle, each search as it was before any of them.

    Returns
    -------
    dict of str to str
        Job id to its new card, for those that change.
    """
    came = Counter(card_id for p in placings for card_id in p.admission.card_ids)
    by_queue: dict[str, list[Placing]] = {}
    for placing in placings:
        card_ids = placing.admission.card_ids
        if len(card_ids) == 1 and came[card_ids[0]] == 1:
            by_queue.setdefault(placing.search.job.queue, []).append(placing)
    moved: dict[str, str] = {}
    for placed in by_queue.values():
        moved |= _exchanged(placed)
    return moved


def _exchanged(placed: Sequence[Placing]) -> dict[str, str]:
    card_ids = [placing.admission.card_ids[0] for placing in placed]
    costs = np.array([[_cost(placing.search, c) for c in card_ids] for placing in placed])
    if len(placed) < 2 or not np.isfinite(np.diag(costs)).all():
        return {}
    chosen = minimum_contention(costs)
    gain = float(np.trace(costs)) - sum(float(costs[row, at]) for row, at in enumerate(chosen))
    if gain <= LEAST_GAIN:
        return {}
    return {
        placing.admission.job_id: card_ids[at]
        for row, (placing, at) in enumerate(zip(placed, chosen, strict=True))
        if at != row
    }


def _cost(search: Search, card_id: str) -> float:
    card = search.board.ledger.cards[card_id]
    answer = judged(card, search, is_quota_free=True)
    if not isinstance(answer, Candidate):
        return float("inf")
    return cost(answer, search.rules.bound)
