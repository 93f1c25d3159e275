"""How good a card is for a job: graded scores in [0, 1], made of terms that can be shown."""

from dataclasses import dataclass
from enum import StrEnum

from data.domain import Estimate
from scheduler_client.policy.decisions import Evidence
from scheduler_client.policy.node_cost import node_cost
from scheduler_client.policy.predictions import Colocation
from scheduler_client.policy.view import CardState


class Bound(StrEnum):
    """Which end of a predicted slowdown a decision uses."""

    UPPER = "upper"
    VALUE = "value"


@dataclass(frozen=True, slots=True)
class ScoreWeights:
    """What each term counts (>= 0, not all 0); only the proportions matter."""

    slowdown: float = 1.0
    memory: float = 0.1
    fragmentation: float = 0.2

    def factors(self, *, gang_waits: bool) -> tuple[float, float, float]:
        """Return what each term counts in a cycle."""
        return self.slowdown, self.memory, self.fragmentation if gang_waits else 0.0


@dataclass(frozen=True, slots=True)
class Candidate:
    """One card a job could go to, with what would happen there."""

    card: CardState
    mem_mib: int
    colocation: Colocation


@dataclass(frozen=True, slots=True)
class Score:
    """A candidate's score in [0, 1], higher is better, and its terms, each in [0, 1]."""

    total: float
    terms: Evidence


def bounded(estimate: Estimate, bound: Bound) -> float:
    """Return the end of a slowdown that a decision must use.

    The upper end where `bound` says so, and wherever the job lies outside what was learnt.

    Examples
    --------
    >>> from data.domain import Source
    >>> bounded(Estimate(1.2, 1.0, 1.6, "m/1", Source.MODEL, in_domain=False), Bound.VALUE)
    1.6
    """
    return estimate.value if bound is Bound.VALUE and estimate.in_domain else estimate.upper


def worst_slowdown(colocation: Colocation, bound: Bound) -> float:
    """Return the largest slowdown that a placement would cause, to the job or a neighbour."""
    return max((bounded(estimate, bound) for estimate in colocation.slowdowns), default=1.0)


def score(candidate: Candidate, bound: Bound, weights: ScoreWeights, *, gang_waits: bool) -> Score:
    """Return how good a candidate is.

    Parameters
    ----------
    gang_waits : bool
        Whether a pending job needs several cards; only then is it worth keeping cards empty.

    Notes
    -----
    The slowdown term is ``1 / (1 + cost)`` with the summed slowdowns above 1 of the job and its
    neighbours as cost; without a model, with DeepShare's node cost.
    """
    card = candidate.card
    used_mib = card.total_mem_mib - card.free_mem_mib
    filled = min(1.0, (used_mib + candidate.mem_mib) / max(1, card.total_mem_mib))
    terms = (
        ("slowdown", 1 / (1 + cost(candidate, bound))),
        ("memory", 1 - filled),
        ("fragmentation", 1.0 if card.residents else 0.0),
    )
    factors = weights.factors(gang_waits=gang_waits)
    # Added one by one, as arrays are: `sum` of Python 3.12 rounds otherwise, and ties would part.
    weighted = factors[0] * terms[0][1] + factors[1] * terms[1][1] + factors[2] * terms[2][1]
    return Score(weighted / (factors[0] + factors[1] + factors[2]), terms)


def cost(candidate: Candidate, bound: Bound) -> float:
    """Return what a placement costs (>= 0): its contention, or DeepShare's node cost."""
    colocation, card = candidate.colocation, candidate.card
    if colocation.gpu_util_cost is None:
        return contention(colocation, bound)
    used_mib = card.total_mem_mib - card.free_mem_mib
    total_mib = max(1, card.total_mem_mib)
    return node_cost(colocation.gpu_util_cost, used_mib, candidate.mem_mib, total_mib)


def contention(colocation: Colocation, bound: Bound) -> float:
    """Return the summed slowdowns above 1 of the job and its neighbours."""
    return sum(max(0.0, bounded(estimate, bound) - 1) for estimate in colocation.slowdowns)
