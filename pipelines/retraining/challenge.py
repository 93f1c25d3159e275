"""A challenge: train beside the champion, judge both on what neither has learnt, register."""

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field, replace
from typing import Protocol

import numpy as np
import pandas as pd
from lightgbm.basic import LightGBMError
from numpy.typing import NDArray

from data.errors import BadModelError, ColocastError, NoChampionError
from pipelines.registering.registry import Registry
from pipelines.registering.report import TrainingReport
from pipelines.retraining.finished_jobs import FinishedJobs, Sequences, learnt_until
from pipelines.retraining.gate import Evidence, GateRules, Verdict, undecided, verdict
from pipelines.retraining.parent_run import RetrainRun, retrain_run
from pipelines.retraining.retrainer import Challenge
from serving.inference.bundle import Bundle, Floats

LOG = logging.getLogger("colocast.retrain")
CHALLENGER = "challenger"
JOBLOG, SEQUENCE, SEEN = "joblog", "joblog_sequence", "production_rows"
"""Facts of a version: of which job log, up to which entry, and how many rows it learnt."""

Trained = tuple[Bundle, TrainingReport]


@dataclass(frozen=True, slots=True)
class Answers:
    """How models answered the rows they were asked, in order.

    Attributes
    ----------
    errors : float64 array of shape (n,)
        Finite and not negative; of the logarithm, so that long jobs do not drown short ones.
    covered : float64 array of shape (n,), in [0, 1]
        Whether, or with what share of several signals, the interval held what was observed.
    """

    errors: Floats
    covered: Floats


class Lesson(Protocol):
    """What finished jobs teach to models that belong together, and how these are judged."""

    @property
    def models(self) -> tuple[str, ...]:
        """Registered names; they are promoted together or not at all."""
        ...

    @property
    def sequences(self) -> Sequences:
        """Job log entries of the usable rows, ascending, shape (n,)."""
        ...

    @property
    def groups(self) -> NDArray[np.generic]:
        """What the rows repeat, see ``gate.Evidence``, shape (n,)."""
        ...

    def trained(self, until: int) -> Sequence[Trained]:
        """Return each model and its report, from the initial tables and entries up to `until`."""
        ...

    def answers(self, bundles: Sequence[Bundle], after: int) -> Answers:
        """Return how `bundles`, in the order of `models`, answer the rows after `after`."""
        ...


@dataclass(frozen=True, slots=True)
class LessonChallenger:
    """Challenges the champions of one kind.

    Attributes
    ----------
    registry : callable
        Opens the registry; called anew for each attempt, for it may be down in between.
    run : RetrainRun
        Where the parent run of an attempt is logged.
    lessons : callable
        Finished jobs to the lessons of this kind.
    rules : GateRules
    shield : callable
        Entered while the registry is written, so that a signal to end waits for it.
    """

    registry: Callable[[], Registry]
    run: RetrainRun
    lessons: Callable[[FinishedJobs], Sequence[Lesson]]
    rules: GateRules = field(default_factory=GateRules)
    shield: Callable[[], AbstractContextManager[object]] = nullcontext

    def __call__(self, finished: FinishedJobs) -> Sequence[Challenge]:
        """Return what became of each model; see ``retrain.Challenger``."""
        registry = self.registry()
        lessons = self.lessons(finished)
        return [made for lesson in lessons for made in self._challenge(registry, lesson, finished)]

    def _challenge(
        self, registry: Registry, lesson: Lesson, finished: FinishedJobs
    ) -> Sequence[Challenge]:
        champions = _champions(registry, lesson.models)
        seen = _seen(champions, finished.joblog)
        until = learnt_until(lesson.sequences, seen)
        judged = int((lesson.sequences > until).sum())
        if judged < self.rules.min_rows:
            found = f"only {judged} new rows to judge by, wanted {self.rules.min_rows}"
            return _kept(registry, lesson, undecided(judged, found))
        try:
            trained = lesson.trained(until)
            decision = self._decision(lesson, champions, [bundle for bundle, _ in trained], until)
        except (ColocastError, ValueError, ArithmeticError, LightGBMError) as error:
            LOG.warning("event=untrainable models=%s", lesson.models, exc_info=True)
            return _kept(registry, lesson, undecided(judged, f"not trained: {error}"))
        rows = int((lesson.sequences <= until).sum())
        facts = {JOBLOG: finished.joblog, SEQUENCE: str(until), SEEN: str(rows)}
        stated = [(_with_facts(bundle, facts), report) for bundle, report in trained]
        with self.shield():
            return self._registered(registry, lesson, stated, decision)

    def _decision(
        self, lesson: Lesson, champions: Sequence[Bundle], fresh: Sequence[Bundle], until: int
    ) -> Verdict:
        new = lesson.answers(fresh, until)
        old = lesson.answers(champions, until) if champions else None
        evidence = Evidence(
            challenger_errors=new.errors,
            covered=new.covered,
            champion_errors=None if old is None else old.errors,
            champion_seen=min((int(b.spec.facts.get(SEEN, 0)) for b in champions), default=0),
            groups=lesson.groups[lesson.sequences > until],
        )
        return verdict(evidence, self.rules)

    def _registered(
        self, registry: Registry, lesson: Lesson, trained: Sequence[Trained], decision: Verdict
    ) -> Sequence[Challenge]:
        former = {name: registry.champion(name) for name in lesson.models}
        versions = {}
        with retrain_run(self.run, lesson.models, decision) as parent:
            for bundle, report in trained:
                name = bundle.spec.name
                judged = replace(report, metrics={**report.metrics, **gate_metrics(decision)})
                versions[name] = registry.register(bundle, judged, parent)
                registry.set_tags(name, versions[name], _tags(decision, former[name]))
                registry.set_alias(name, CHALLENGER, versions[name])
        if decision.promote:
            for name, version in versions.items():
                registry.promote(name, version)
        return [Challenge(n, version, former[n], decision) for n, version in versions.items()]


def ends(estimates: pd.DataFrame) -> tuple[Floats, Floats, Floats]:
    """Return ``value``, ``lower`` and ``upper`` of a frame of estimates as arrays."""
    value, lower, upper = (
        estimates[name].to_numpy(np.float64) for name in ("value", "lower", "upper")
    )
    return value, lower, upper


def gate_metrics(decision: Verdict) -> dict[str, float]:
    """Return the numbers of a verdict as MLflow metrics ``gate_*``; what is unknown is left out.

    Examples
    --------
    >>> gate_metrics(undecided(3, "too few"))
    {'gate_rows': 3.0, 'gate_groups': 3.0}
    """
    numbers = {name: value for name, value in asdict(decision).items() if name in _NUMBERS}
    return {f"gate_{name}": float(v) for name, v in numbers.items() if np.isfinite(v)}


_NUMBERS = frozenset(Verdict.__annotations__) - {"promote", "reason"}


def _tags(decision: Verdict, former: str | None) -> Mapping[str, str]:
    return {
        "colocast.gate": "passed" if decision.promote else "refused",
        "colocast.gate_reason": decision.reason,
        "colocast.previous_champion": former or "none",
    }


def _champions(registry: Registry, models: Sequence[str]) -> list[Bundle]:
    """Return the champions, or none at all where one is missing or damaged."""
    try:
        return [registry.load(name, "champion") for name in models]
    except (NoChampionError, BadModelError) as error:
        LOG.warning("event=no_champion models=%s reason=%s", ",".join(models), error)
        return []


def _seen(champions: Sequence[Bundle], joblog: str) -> int:
    facts = [bundle.spec.facts for bundle in champions]
    known = [int(f.get(SEQUENCE, 0)) if f.get(JOBLOG) == joblog else 0 for f in facts]
    return max(known, default=0)


def _kept(registry: Registry, lesson: Lesson, found: Verdict) -> Sequence[Challenge]:
    return [Challenge(name, None, registry.champion(name), found) for name in lesson.models]


def _with_facts(bundle: Bundle, facts: Mapping[str, str]) -> Bundle:
    return replace(bundle, spec=replace(bundle.spec, facts={**bundle.spec.facts, **facts}))
