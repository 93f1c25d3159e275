"""Which versions may go: none that an alias, a recent decision or a person still needs."""

import logging
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from data.domain import REGISTERED_MODELS, FinishedJob
from pipelines.registering.registered_version import RegisteredVersion
from pipelines.registering.registry import Registry

LOG = logging.getLogger("colocast.retrain")
DAY_S = 86_400.0
KEEP_TAG = "colocast.keep"
"""A version with this tag stays, whatever its value says."""


@dataclass(frozen=True, slots=True)
class RetentionRules:
    """What stays.

    Attributes
    ----------
    newest : int
        Versions of each model, however little they are needed (>= 1).
    audit_s : float
        A version that decided on a job which finished within so many seconds stays, so that
        the decision can be explained.
    """

    newest: int = 5
    audit_s: float = 90 * DAY_S


@dataclass(frozen=True, slots=True)
class Pruned:
    """A version that goes, and why it may."""

    name: str
    version: str
    reason: str


def decided_versions(jobs: Iterable[FinishedJob], since: float) -> frozenset[str]:
    """Return the versions, ``<name>/<version>``, that decided on jobs finished after `since`.

    Examples
    --------
    >>> from data.domain import Outcome
    >>> job = FinishedJob("1", 1, "u", "q", "k", 1, 0, 0, 9, Outcome.OK, model_version="m/3")
    >>> decided_versions([job], since=5.0), decided_versions([job], since=10.0)
    (frozenset({'m/3'}), frozenset())
    """
    return frozenset(
        job.model_version for job in jobs if job.model_version and job.finish_time > since
    )


def prunable(
    versions: Sequence[RegisteredVersion], decided: Collection[str], rules: RetentionRules
) -> list[Pruned]:
    """Return the versions of one model that may go, the oldest last.

    Parameters
    ----------
    versions : sequence of RegisteredVersion
        Newest first.
    decided : collection of str
        As `decided_versions` returns.
    rules : RetentionRules
    """
    # What is compared with or rolled back to stays as well: all that an alias points at.
    return [
        Pruned(each.name, each.version, f"no alias, and not among the newest {rules.newest}")
        for each in versions[rules.newest :]
        if not each.aliases
        and KEEP_TAG not in each.tags
        and f"{each.name}/{each.version}" not in decided
    ]


def pruned(
    registry: Registry,
    decided: Collection[str],
    rules: RetentionRules | None = None,
    *,
    dry_run: bool = False,
) -> list[Pruned]:
    """Delete what may go, of all models, and return it.

    A version's files and its training tables are deleted; the run with its parameters, metrics
    and the reasons stays.

    Raises
    ------
    RegistryError
        If the registry is out of reach now; what was deleted before stays deleted.
    """
    rules = rules or RetentionRules()
    gone = []
    for name in REGISTERED_MODELS:
        for each in prunable(registry.versions(name), decided, rules):
            if not dry_run:
                registry.delete(each.name, each.version)
                LOG.info(
                    "event=pruned model=%s version=%s reason=%s",
                    *(each.name, each.version, each.reason),
                )
            gone.append(each)
    return gone
