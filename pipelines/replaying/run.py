"""One replay: a trace with drawn workloads, a cluster, what is believed of pairs, a policy."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from data.errors import SettingError
from pipelines.replaying.models import Beliefs, oracle
from pipelines.replaying.workloads import CARD_MEM_MIB, Workloads
from scheduler_client.baselines.fair_share import FairShare
from scheduler_client.baselines.fifo import FifoFixed, FifoPooled, FifoShared
from scheduler_client.baselines.lucid import Lucid
from scheduler_client.baselines.remaining import LeastRemaining
from scheduler_client.baselines.shortest import qssf, sjf_oracle
from scheduler_client.baselines.tiresias import Tiresias
from scheduler_client.policy.decide import PolicyRules
from scheduler_client.policy.eviction_cost import EvictionRules
from scheduler_client.policy.policies import Policy, policy_named
from scheduler_client.policy.service_levels import LevelRules
from scheduler_client.policy.tolerance import ToleranceRule
from scheduler_client.replay.colocate import Colocate, ColocateRules
from scheduler_client.replay.eventlog import EventLog
from scheduler_client.replay.live import CYCLE_S, LivePolicy, PairForecasts
from scheduler_client.replay.outcome import Outcome
from scheduler_client.replay.simulation import ReplayPolicy, Simulation, Site
from scheduler_client.replay.trace import Trace


@dataclass(frozen=True, slots=True)
class Replay:
    """Everything that policies are compared on.

    Attributes
    ----------
    trace : Trace
        With workloads drawn.
    site : Site
    workloads : Workloads
    beliefs : Beliefs
        What the policy ``colocate`` predicts by.
    scores : tuple of int
        Lucid's share score of each workload, in [0, 2].
    """

    trace: Trace
    site: Site
    workloads: Workloads
    beliefs: Beliefs
    scores: tuple[int, ...]

    def run(self, name: str, log: EventLog | None = None) -> Outcome:
        """Replay the trace under the policy called `name`.

        Raises
        ------
        SettingError
            If there is no policy of that name.
        """
        if name not in POLICIES:
            raise SettingError(f"policy must be one of {', '.join(POLICIES)}, got {name!r}")
        simulation = Simulation(self.trace, self.site, self.workloads.truth, log)
        simulation.run(POLICIES[name](self))
        return Outcome.of(simulation)


ATTAINED = PolicyRules(order=LevelRules(), eviction=EvictionRules(growth=0.1, most=50))
"""The policy of ``colocast schedule`` with ``order: attained``."""

GENTLE = ColocateRules(
    tolerance=ToleranceRule(least=0.05, most=0.1),
    levels=LevelRules(fresh_slowdown=1.1),
    caution=0.0,
)
"""For who would rather wait than be slowed."""


def _colocate(
    replay: Replay, beliefs: Beliefs, *, learns: bool = True, rules: ColocateRules | None = None
) -> ReplayPolicy:
    fits = replay.workloads.truth.fits
    return Colocate(beliefs.value, fits, learns=learns, rules=rules)


def _live(
    replay: Replay, policy: Policy, name: str | None = None, grace_s: float | None = None
) -> ReplayPolicy:
    workloads, beliefs = replay.workloads, replay.beliefs
    memory = workloads.scheduled["gpu_mem_mib_mean"].fillna(CARD_MEM_MIB).round().astype("int64")
    forecasts = PairForecasts(
        workloads.truth.names, beliefs.value, beliefs.upper, tuple(memory), CARD_MEM_MIB
    )
    looks_after_s = (CYCLE_S,) if grace_s is None else (CYCLE_S, grace_s + CYCLE_S)
    return LivePolicy(policy, forecasts, name=name, looks_after_s=looks_after_s)


POLICIES: Mapping[str, Callable[[Replay], ReplayPolicy]] = {
    "fifo_fixed": lambda _: FifoFixed(),
    "fifo_pooled": lambda _: FifoPooled(),
    "fifo_shared": lambda replay: FifoShared(replay.workloads.truth.fits),
    "sjf_oracle": lambda _: sjf_oracle(),
    "srpt_oracle": lambda _: LeastRemaining(),
    "qssf": lambda _: qssf(),
    "tiresias": lambda _: Tiresias(),
    "lucid": lambda replay: Lucid(replay.scores, replay.workloads.truth.fits),
    "fair_share": lambda _: FairShare(),
    "colocate": lambda replay: _colocate(replay, replay.beliefs),
    "colocate_gentle": lambda replay: _colocate(replay, replay.beliefs, rules=GENTLE),
    "colocate_frozen": lambda replay: _colocate(replay, replay.beliefs, learns=False),
    "colocate_oracle": lambda replay: _colocate(replay, oracle(replay.workloads), learns=False),
    "live_exclusive": lambda replay: _live(replay, policy_named("exclusive", PolicyRules())),
    "live_colocate": lambda replay: _live(replay, policy_named("colocate", PolicyRules())),
    "live_attained": lambda replay: _live(
        replay,
        policy_named("colocate", ATTAINED),
        "live_attained",
        grace_s=LevelRules().grace_s,
    ),
}
"""Every policy by its name on the command line."""

BY_DEFAULT = tuple(name for name in POLICIES if not name.startswith("live_"))
"""Those that whole traces are replayed with; the others look at every card at every event."""
