"""Everything that a list policy is made of."""

from dataclasses import dataclass, field
from typing import Literal

from scheduler_client.policy.eviction_cost import EvictionRules
from scheduler_client.policy.queue_order import Ageing
from scheduler_client.policy.reserving import ReservationRules
from scheduler_client.policy.scoring import Bound, ScoreWeights
from scheduler_client.policy.service_levels import LevelRules
from scheduler_client.policy.tolerance import ToleranceRule


@dataclass(frozen=True, slots=True)
class PolicyRules:
    """Everything a list policy is made of; the defaults are those of ``colocate``.

    Attributes
    ----------
    order : {"fair", "fifo"} or LevelRules
        By which jobs take their turns; with `LevelRules` by attained GPU time, which then also
        says who gives way to whom, and how much slowdown each tolerates.
    max_jobs_per_card : int
        At least 1; 1 never shares.
    asks : bool
        Whether cards are shared by prediction; otherwise wherever count and memory allow.
    reservation : ReservationRules, optional
        When cards are kept for a job that is passed; None: never.
    assignment : {"list", "joint"}
        Whether each job goes where it scores best when its turn comes, or jobs of one queue that
        start in the same cycle exchange cards so that their contention is least together.
    eviction : EvictionRules, optional
        How victims are chosen for queues that have jobs evicted; None: nobody is evicted.
    """

    order: Literal["fair", "fifo"] | LevelRules = "fair"
    max_jobs_per_card: int = 2
    asks: bool = True
    bound: Bound = Bound.UPPER
    ageing: Ageing = field(default_factory=Ageing)
    tolerance: ToleranceRule = field(default_factory=ToleranceRule)
    weights: ScoreWeights = field(default_factory=ScoreWeights)
    reservation: ReservationRules | None = field(default_factory=ReservationRules)
    eviction: EvictionRules | None = field(default_factory=EvictionRules)
    assignment: Literal["list", "joint"] = "list"

    @property
    def levels(self) -> LevelRules | None:
        """The rules of attained GPU time; None where that does not order."""
        return self.order if isinstance(self.order, LevelRules) else None
