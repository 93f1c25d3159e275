"""What follows the gate: a shadow run, promotion, and rollback where production disagrees."""

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace

from scipy.stats import binom

from data.errors import BadModelError
from pipelines.registering.registry import CHAMPION, PREVIOUS, ROLLED_BACK, SHADOW, Registry
from pipelines.retraining.finished_jobs import FinishedJobs
from pipelines.retraining.gate import verdict
from pipelines.retraining.gate_terms import Evidence, GateRules, Verdict
from pipelines.retraining.lessons import Lesson
from pipelines.retraining.retrainer import Challenge
from serving.inference.bundle import Bundle

LOG = logging.getLogger("colocast.retrain")
SHADOW_SINCE, PROMOTED_AT = "colocast.shadow_since", "colocast.promoted_at"
"""Tags of a version: job log entries at which it began to shadow and to serve."""

ANY_NUMBER = 10**12  # every champion counts as young: to be no worse is enough

Compared = Callable[[Lesson, Sequence[Bundle], Sequence[Bundle], FinishedJobs, int], Evidence]


def shadowed(registry: Registry, versions: Mapping[str, str], newest: int) -> str:
    """Let versions answer beside the champions from now on; return the stage."""
    for name, version in versions.items():
        registry.set_tags(name, version, {SHADOW_SINCE: str(newest)})
        registry.set_alias(name, SHADOW, version)
    return "shadow"


def promoted(registry: Registry, versions: Mapping[str, str], newest: int) -> str:
    """Make versions the champions; return the stage."""
    for name, version in versions.items():
        registry.set_tags(name, version, {PROMOTED_AT: str(newest)})
        registry.promote(name, version)
        if registry.aliased(name, SHADOW) == version:
            registry.drop_alias(name, SHADOW)
    return "promoted"


@dataclass(frozen=True, slots=True)
class ShadowRules:
    """When a shadow run ends, and what production may do to a champion.

    Attributes
    ----------
    rows : int
        Jobs that end the shadow run (>= 1).
    tied_groups : int
        Groups of jobs below which it goes on rather than to drop a challenger that is not worse
        beyond chance: a mean of ten rows is a twentieth higher in every other run.
    gate : GateRules
        Judges the shadow run. It has passed the gate before, so that here it must only not be
        worse.
    guard_rows : int
        Jobs answered since a promotion, before it may be undone.
    guard : GateRules
        A champion is rolled back if, by these, the version before is better: looked at again and
        again, hence the confidence.
    live_coverage : float
        It is, too, if it covers less than this share of the groups of live jobs, beyond chance,
        and the version before covers more.
    """

    rows: int = 8
    tied_groups: int = 50
    gate: GateRules = field(
        default_factory=lambda: GateRules(min_rows=1, min_groups=1, enough_seen=ANY_NUMBER)
    )
    guard_rows: int = 16
    guard: GateRules = field(
        default_factory=lambda: GateRules(confidence=0.998, coverage_floor=0.0)
    )
    live_coverage: float = 0.6


@dataclass(frozen=True, slots=True)
class Promotions:
    """Ends shadow runs and undoes promotions, by what jobs that finished since have shown.

    Attributes
    ----------
    compared : callable
        As ``challenge.answered``: the gate has seen what a challenger costs to serve.
    rules : ShadowRules
    shield : callable
        Entered while the registry is written.
    """

    compared: Compared
    rules: ShadowRules = field(default_factory=ShadowRules)
    shield: Callable[[], AbstractContextManager[object]] = nullcontext

    def settled(
        self, registry: Registry, lesson: Lesson, finished: FinishedJobs
    ) -> Sequence[Challenge]:
        """Promote or drop versions that have shadowed long enough; none if none has."""
        known = {}
        for name in lesson.models:
            version = registry.aliased(name, SHADOW)
            if version is None:
                return []
            known[name] = version
        since = _entry(registry, known, SHADOW_SINCE)
        rows = int((lesson.sequences > since).sum())
        if rows < self.rules.rows:
            return []
        both = _versions(registry, lesson, (CHAMPION, SHADOW))
        if both is None:
            return []
        found = verdict(self.compared(lesson, *both, finished, since), self.rules.gate)
        if _is_chance(found, self.rules):
            return []
        newest = int(finished.sequences[-1])
        former = {name: registry.champion(name) for name in known}
        with self.shield():
            for name, version in known.items():
                registry.set_tags(name, version, _shadow_tags(found))
            if found.promote:
                stage = promoted(registry, known, newest)
            else:
                stage = "kept"
                for name in known:
                    registry.drop_alias(name, SHADOW)
        return [Challenge(n, version, former[n], found, stage) for n, version in known.items()]

    def guarded(
        self, registry: Registry, lesson: Lesson, finished: FinishedJobs
    ) -> Sequence[Challenge]:
        """Roll champions back where the versions before them answer better since."""
        aliases = {name: registry.aliases(name) for name in lesson.models}
        now, former = (
            {name: found[alias] for name, found in aliases.items() if alias in found}
            for alias in (CHAMPION, PREVIOUS)
        )
        if len(now) < len(aliases) or len(former) < len(aliases):
            return []
        if not all(int(former[name]) < int(now[name]) for name in now):
            return []  # this is what a rollback left, by hand or not
        since = _entry(registry, now, PROMOTED_AT)
        if since == 0 or int((lesson.sequences > since).sum()) < self.rules.guard_rows:
            return []
        both = _versions(registry, lesson, (PREVIOUS, CHAMPION))
        if both is None:
            return []
        found = verdict(self.compared(lesson, *both, finished, since), self.rules.guard)
        broken = _broken(found, self.rules)
        if not broken:
            return []
        found = replace(found, reason=broken)
        with self.shield():
            for name, version in now.items():
                registry.set_tags(name, version, {ROLLED_BACK: found.reason})
                registry.rollback(name)
        return [Challenge(n, former[n], now[n], found, "rolled_back") for n in now]


def _is_chance(found: Verdict, rules: ShadowRules) -> bool:
    """Return whether a challenger would be dropped for what few jobs have shown by chance."""
    is_tied = found.gain_low <= 0 <= found.gain_high
    return not found.promote and is_tied and found.groups < rules.tied_groups


def _broken(found: Verdict, rules: ShadowRules) -> str:
    """Return which bound live jobs broke; empty if none."""
    if found.gain_high < 0:
        error = f"mean error {found.challenger_error:.3f} against {found.champion_error:.3f}"
        return f"worse than the version before on {found.rows} live rows: {error}"
    chance = binom.cdf(round(found.coverage * found.groups), found.groups, rules.live_coverage)
    if found.champion_coverage > found.coverage and chance < (1 - rules.guard.confidence) / 2:
        share = f"coverage {found.coverage:.2f} on {found.groups} groups of live rows"
        return f"{share} is below {rules.live_coverage:.2f}"
    return ""


def _versions(
    registry: Registry, lesson: Lesson, aliases: tuple[str, str]
) -> tuple[Sequence[Bundle], Sequence[Bundle]] | None:
    try:
        old, new = ([registry.load(name, alias) for name in lesson.models] for alias in aliases)
    except BadModelError as error:
        LOG.warning("event=unreadable models=%s reason=%s", lesson.models, error)
        return None
    return old, new


def _shadow_tags(found: Verdict) -> Mapping[str, str]:
    outcome = "passed" if found.promote else "refused"
    return {"colocast.shadow": outcome, "colocast.shadow_reason": found.reason}


def _entry(registry: Registry, versions: Mapping[str, str], tag: str) -> int:
    entries = [registry.tags(name, version).get(tag, "0") for name, version in versions.items()]
    return max(map(int, entries), default=0)
