"""By which rules the jobs of a cycle are placed: how much slowdown each tolerates."""

from dataclasses import replace

from scheduler_client.policy.giving_way import queues_within_quota
from scheduler_client.policy.placing import PlacingRules
from scheduler_client.policy.rules import PolicyRules
from scheduler_client.policy.tolerance import excess, tolerance
from scheduler_client.policy.view import ClusterView, PendingJob, asked_gpus, pressure


class Tolerated:
    """The placing rules of a cycle; where attained GPU time orders, not all jobs tolerate alike.

    Attributes
    ----------
    pressure : float
        What tolerance goes by, in [0, 1].
    within_quota : set of str
        Queues that their nominal quota alone would do for; empty where fair shares order.
    common : PlacingRules
        Of a job that nothing is special about.
    """

    def __init__(self, view: ClusterView, rules: PolicyRules) -> None:
        self._levels = rules.levels
        self.within_quota = frozenset[str]() if rules.levels is None else queues_within_quota(view)
        self.pressure = (
            pressure(view)
            if rules.levels is None
            else excess(asked_gpus(view), sum(card.is_healthy for card in view.cards))
        )
        common = PlacingRules(
            max_jobs_per_card=rules.max_jobs_per_card,
            asks=rules.asks,
            tolerance=tolerance(self.pressure, rules.tolerance),
            bound=rules.bound,
            weights=rules.weights,
            gang_waits=any(pending.job.gpus > 1 for pending in view.pending),
        )
        if rules.levels is not None:
            spared_tolerance = rules.levels.guaranteed_slowdown
            common = replace(common, spared=self.within_quota, spared_tolerance=spared_tolerance)
        self.common = common
        self._by_tolerance: dict[float, PlacingRules] = {}

    @property
    def most(self) -> float:
        """The largest slowdown that any job of the cycle tolerates."""
        levels, most = self._levels, self.common.tolerance
        return most if levels is None else max(most, levels.fresh_slowdown)

    def of(self, pending: PendingJob) -> PlacingRules:
        """Return the rules for one job."""
        levels, most = self._levels, self.common.tolerance
        if levels is None:
            return self.common
        if pending.job.queue in self.within_quota:
            most = levels.guaranteed_slowdown
        elif levels.level(pending.attained_gpu_s) == 0:
            most = self.most
        return self._by_tolerance.setdefault(most, replace(self.common, tolerance=most))
