"""The policies that can be chosen by name."""

from dataclasses import dataclass, replace
from typing import Protocol

from data.errors import SettingError
from scheduler_client.policy.decide import decide
from scheduler_client.policy.decisions import Decision
from scheduler_client.policy.predictions import Predictions
from scheduler_client.policy.rules import PolicyRules
from scheduler_client.policy.view import ClusterView


class Policy(Protocol):
    """Decides from a view; the live loop and the tests' clusters drive any of them alike."""

    @property
    def name(self) -> str:
        """What it is called on the command line."""
        ...

    @property
    def asks(self) -> bool:
        """Whether it wants predictions."""
        ...

    @property
    def max_jobs_per_card(self) -> int:
        """The most jobs it ever puts on one card."""
        ...

    def decide(self, view: ClusterView, predictions: Predictions) -> Decision:
        """Choose what starts now."""
        ...


@dataclass(frozen=True, slots=True)
class ListPolicy:
    """A policy that goes through the queue once and places each job where it scores best."""

    name: str
    rules: PolicyRules

    @property
    def asks(self) -> bool:
        """Whether it wants predictions."""
        return self.rules.asks

    @property
    def max_jobs_per_card(self) -> int:
        """The most jobs it ever puts on one card."""
        return self.rules.max_jobs_per_card

    def decide(self, view: ClusterView, predictions: Predictions) -> Decision:
        """Choose what starts now."""
        return decide(view, predictions, self.rules)


POLICIES = ("colocate", "exclusive", "fifo_shared")


def policy_named(name: str, rules: PolicyRules) -> Policy:
    """Return a policy by its name.

    ``colocate``: fair share, cards shared by prediction. ``exclusive``: submission order, never
    shares a card (the baseline of the sources). ``fifo_shared``: submission order, shares any
    card with room, without asking what that does.

    Parameters
    ----------
    rules : PolicyRules
        What the configuration says; the baselines take only the count of jobs per card from it.

    Raises
    ------
    SettingError
        If there is no policy of that name.
    """
    fifo = PolicyRules(
        order="fifo",
        asks=False,
        max_jobs_per_card=rules.max_jobs_per_card,
        reservation=None,
        eviction=None,
    )
    found = {
        "colocate": rules,
        "exclusive": replace(fifo, max_jobs_per_card=1),
        "fifo_shared": fifo,
    }
    if name not in found:
        raise SettingError(f"policy must be one of {', '.join(POLICIES)}, got {name!r}")
    return ListPolicy(name, found[name])
