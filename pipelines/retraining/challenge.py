"""A challenge: train beside the champion, judge both on what neither has learnt, register."""

import logging
import pickle  # only to measure
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field, replace

import numpy as np
from lightgbm.basic import LightGBMError

from data.errors import ColocastError
from pipelines.registering.registry import CHALLENGER, Registry
from pipelines.retraining.champions import (
    JOBLOG,
    SEEN,
    SEQUENCE,
    champions,
    learnt_rows,
    learnt_sequence,
)
from pipelines.retraining.finished_jobs import FinishedJobs, Sequences, learnt_until
from pipelines.retraining.gate import verdict
from pipelines.retraining.gate_terms import NAN, Costs, Evidence, GateRules, Verdict, undecided
from pipelines.retraining.lessons import Lesson, Trained
from pipelines.retraining.observations import part_labels
from pipelines.retraining.parent_run import RetrainRun, retrain_run
from pipelines.retraining.pictures import error_over_time
from pipelines.retraining.promotion import promoted, shadowed
from pipelines.retraining.retrainer import Challenge
from pipelines.retraining.state import Cause
from serving.inference.bundle import Bundle

LOG = logging.getLogger("colocast.retrain")
TIMED = 5  # answers to the stored examples; the quickest counts


@dataclass(frozen=True, slots=True)
class Attempt:
    """What was decided, why it was tried, up to which entry of the log, and where it is logged."""

    decision: Verdict
    cause: Cause
    newest: int
    parent_run_id: str


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
    shadow_rows : int
        Jobs that a challenger which passed the gate must answer beside the champion before it is
        promoted; 0 promotes at once, and so does a champion that is missing.
    """

    registry: Callable[[], Registry]
    run: RetrainRun
    lessons: Callable[[FinishedJobs], Sequence[Lesson]]
    rules: GateRules = field(default_factory=GateRules)
    shield: Callable[[], AbstractContextManager[object]] = nullcontext
    shadow_rows: int = 0

    def __call__(self, finished: FinishedJobs, cause: Cause) -> Sequence[Challenge]:
        """Return what became of each model; see ``retrainer.Challenger``."""
        registry = self.registry()
        return [
            made
            for lesson in self.lessons(finished)
            for made in self._challenge(registry, lesson, finished, cause)
        ]

    def _challenge(
        self, registry: Registry, lesson: Lesson, finished: FinishedJobs, cause: Cause
    ) -> Sequence[Challenge]:
        serving = champions(registry, lesson.models)
        # After a drift only what came since tells which of the two is right now.
        seen = max(learnt_sequence(serving, finished.joblog), cause.since - 1)
        until = learnt_until(lesson.sequences, seen)
        judged = int((lesson.sequences > until).sum())
        if judged < self.rules.min_rows:
            found = f"only {judged} new rows to judge by, wanted {self.rules.min_rows}"
            return self._kept(registry, lesson, undecided(judged, found), cause)
        try:
            decision, evidence, trained = self._judged(lesson, serving, finished, until)
        except (ColocastError, ValueError, ArithmeticError, LightGBMError) as error:
            LOG.warning("event=untrainable models=%s", lesson.models, exc_info=True)
            found = f"not trained: {error}"
            return self._kept(registry, lesson, undecided(judged, found), cause)
        if not trained:
            return self._kept(registry, lesson, decision, cause)
        newest = int(finished.sequences[-1]) if len(finished.sequences) else 0
        drawn = _drawn(lesson.sequences[lesson.sequences > until], evidence, cause)
        with retrain_run(self.run, lesson.models, decision, cause, drawn) as parent, self.shield():
            return self._registered(registry, trained, Attempt(decision, cause, newest, parent))

    def _judged(
        self, lesson: Lesson, serving: Sequence[Bundle], finished: FinishedJobs, until: int
    ) -> tuple[Verdict, Evidence, Sequence[Trained]]:
        """Return the verdict on a challenger, from what, and what is to be registered, if any."""
        shadows = bool(serving) and self.shadow_rows > 0
        trial = lesson.trial(until) if shadows else []
        trained = [] if trial else lesson.trained(until)
        challenger = trial or [bundle for bundle, _ in trained]
        evidence = self._compared(lesson, serving, challenger, finished, until)
        decision = _by_values(evidence, self.rules) if trial else verdict(evidence, self.rules)
        if shadows and decision.promote:
            # It has shown what it is worth: the shadow run judges it with all that is known.
            until = int(lesson.sequences[-1])
            trained = lesson.trained(until)
        rows = int((lesson.sequences <= until).sum())
        facts = {JOBLOG: finished.joblog, SEQUENCE: str(until), SEEN: str(rows)}
        stated = [(_with_facts(bundle, facts), report) for bundle, report in trained]
        return decision, evidence, stated

    def _compared(
        self,
        lesson: Lesson,
        serving: Sequence[Bundle],
        challenger: Sequence[Bundle],
        finished: FinishedJobs,
        until: int,
    ) -> Evidence:
        """Return how both answer, and what the challenger will know if it is let through."""
        last = int(lesson.sequences[-1]) if self.shadow_rows > 0 else until
        seen = lesson.sequences <= learnt_sequence(serving, finished.joblog)
        learns = lesson.sequences <= last
        gpu_models = part_labels(lesson, finished, 0)["gpu_model"]
        return replace(
            compared(lesson, serving, challenger, finished, until),
            challenger_seen=int(learns.sum()),
            part_seen={
                str(name): (int(seen[of_it].sum()), int(learns[of_it].sum()))
                for name in np.unique(gpu_models)
                for of_it in [gpu_models == name]
            },
        )

    def _kept(
        self, registry: Registry, lesson: Lesson, found: Verdict, cause: Cause
    ) -> Sequence[Challenge]:
        with retrain_run(self.run, lesson.models, found, cause):
            return [Challenge(name, None, registry.champion(name), found) for name in lesson.models]

    def _registered(
        self, registry: Registry, trained: Sequence[Trained], attempt: Attempt
    ) -> Sequence[Challenge]:
        decision = attempt.decision
        names = [bundle.spec.name for bundle, _ in trained]
        former = {name: registry.champion(name) for name in names}
        versions = {}
        for name, (bundle, report) in zip(names, trained, strict=True):
            judged = replace(report, metrics={**report.metrics, **gate_metrics(decision)})
            versions[name] = registry.register(bundle, judged, attempt.parent_run_id)
            registry.set_tags(name, versions[name], _tags(attempt, former[name]))
            registry.set_alias(name, CHALLENGER, versions[name])
        stage = "kept"
        if decision.promote:
            waits = self.shadow_rows > 0 and None not in former.values()
            stage = (shadowed if waits else promoted)(registry, versions, attempt.newest)
        return [
            Challenge(name, version, former[name], decision, stage)
            for name, version in versions.items()
        ]


def answered(
    lesson: Lesson,
    champion: Sequence[Bundle],
    challenger: Sequence[Bundle],
    finished: FinishedJobs,
    after: int,
) -> Evidence:
    """Return how two versions answer the rows after entry `after`.

    Parameters
    ----------
    lesson : Lesson
    champion, challenger : sequence of Bundle
        In the order of the lesson's models; no champion is an empty sequence.
    finished : FinishedJobs
        Of which the lesson was made.
    after : int
    """
    new = lesson.answers(challenger, after)
    old = lesson.answers(champion, after) if champion else None
    return Evidence(
        challenger_errors=new.errors,
        covered=new.covered,
        champion_errors=None if old is None else old.errors,
        champion_seen=learnt_rows(champion),
        champion_covered=None if old is None else old.covered,
        groups=lesson.groups[lesson.sequences > after],
        parts=part_labels(lesson, finished, after),
        challenger_costs=Costs(losses=new.losses),
        champion_costs=Costs() if old is None else Costs(losses=old.losses),
    )


def compared(
    lesson: Lesson,
    champion: Sequence[Bundle],
    challenger: Sequence[Bundle],
    finished: FinishedJobs,
    after: int,
) -> Evidence:
    """Return the same with what the versions cost to serve: it takes time to find out."""
    found = answered(lesson, champion, challenger, finished, after)
    return replace(
        found,
        challenger_costs=_costs(challenger, found.challenger_costs),
        champion_costs=_costs(champion, found.champion_costs) if champion else Costs(),
    )


def gate_metrics(decision: Verdict) -> dict[str, float]:
    """Return the numbers of a verdict as MLflow metrics ``gate_*``; what is unknown is left out.

    Examples
    --------
    >>> gate_metrics(undecided(3, "too few"))
    {'gate_rows': 3.0, 'gate_groups': 3.0}
    """
    numbers = {name: value for name, value in asdict(decision).items() if name in _NUMBERS}
    return {f"gate_{name}": float(v) for name, v in numbers.items() if np.isfinite(v)}


_NUMBERS = frozenset(Verdict.__annotations__) - {"promote", "reason", "worst_part"}


def _costs(bundles: Sequence[Bundle], known: Costs) -> Costs:
    size = sum(len(pickle.dumps(bundle.estimator)) for bundle in bundles)
    return replace(known, latency_s=sum(map(_latency_s, bundles)), size_bytes=float(size))


def _latency_s(bundle: Bundle) -> float:
    rows = np.array(bundle.spec.example_rows, dtype=np.float64)
    if not len(rows):
        return float("nan")
    times = []
    for _ in range(TIMED):
        start = time.perf_counter()
        bundle.predict(rows)
        times.append(time.perf_counter() - start)
    return min(times)


def _by_values(evidence: Evidence, rules: GateRules) -> Verdict:
    """Return the verdict on a challenger without intervals: its shadow run judges these."""
    rows = np.ones(np.shape(evidence.challenger_errors))
    found = verdict(replace(evidence, covered=rows, champion_covered=None), rules)
    return replace(found, coverage=NAN)


def _tags(attempt: Attempt, former: str | None) -> Mapping[str, str]:
    return {
        "colocast.gate": "passed" if attempt.decision.promote else "refused",
        "colocast.gate_reason": attempt.decision.reason,
        "colocast.cause": attempt.cause.reason,
        "colocast.previous_champion": former or "none",
    }


def _drawn(sequences: Sequences, evidence: Evidence, cause: Cause) -> Mapping[str, bytes]:
    errors = {"challenger": np.asarray(evidence.challenger_errors, dtype=np.float64)}
    if evidence.champion_errors is not None:
        errors["champion"] = np.asarray(evidence.champion_errors, dtype=np.float64)
    marks = [(cause.since, "tab:red", "drift began")] if cause.since else []
    return {"error_over_time.png": error_over_time(sequences.tolist(), errors, marks)}


def _with_facts(bundle: Bundle, facts: Mapping[str, str]) -> Bundle:
    return replace(bundle, spec=replace(bundle.spec, facts={**bundle.spec.facts, **facts}))
