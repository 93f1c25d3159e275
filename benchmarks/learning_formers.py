"""The versions before each promotion, asked on beside those that took their place."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from benchmarks.learning_lived import LOOP, RUNTIME, SLOWDOWN
from benchmarks.learning_questions import request, slowdown
from data.domain import FinishedJob
from pipelines.retraining.retrainer import Challenge
from serving.inference.bundle import Bundle
from serving.inference.slowdowns import Live
from serving.live.history_state import HistoryState
from serving.predictor import Predictor

COMPARED_DAYS = 3.0  # for which the version before a promotion is asked on


@dataclass(slots=True)
class Former:
    """The version before a promotion, asked on beside the new one."""

    kind: str
    promoted_day: float
    until_day: float
    bundles: Mapping[str, Bundle]
    live: Live | None = None
    predictor: Predictor | None = None
    asked: dict[str, float] = field(default_factory=dict)

    def beside(self, shared: HistoryState) -> Predictor:
        """Return what answers now."""
        live = Live(shared.profiles, shared.colocations)
        if self.predictor is None or not live.is_same(self.live):
            self.live = live
            self.predictor = Predictor(self.bundles, shared.features, live, self.predictor)
        return self.predictor


class Formers:
    """Asks what was replaced, with all that the loop learns live, and keeps how it did.

    Parameters
    ----------
    load : callable
        Model and version to the bundle.
    shared : HistoryState

    Attributes
    ----------
    judged : list
        Rows of ``Lived.promotions``.
    """

    def __init__(self, load: Callable[[str, str], Bundle], shared: HistoryState) -> None:
        self._load, self._shared = load, shared
        self._formers: list[Former] = []
        self.judged: list[dict[str, object]] = []

    def keep(self, changed: Sequence[Challenge], day: float) -> None:
        """Ask on, from a day on, the versions that were replaced."""
        for kind in dict.fromkeys(kind_of(challenge.model) for challenge in changed):
            for former in self._formers:
                if former.kind == kind:
                    former.until_day = min(former.until_day, day)
            bundles = {
                c.model: self._load(c.model, c.previous)
                for c in changed
                if kind_of(c.model) == kind and c.stage == "promoted" and c.previous
            }
            if bundles:
                self._formers.append(Former(kind, day, day + COMPARED_DAYS, bundles))

    def ask(self, pairs: Sequence[FinishedJob], others: Sequence[FinishedJob], day: float) -> None:
        """Ask of jobs that start now, beside others or alone."""
        for former in self._formers:
            if day > former.until_day:
                continue
            predictor = former.beside(self._shared)
            if former.kind == SLOWDOWN:
                former.asked |= {job.job_id: slowdown(predictor, job) for job in pairs}
            elif others:
                told = predictor.runtimes([request(job) for job in others])
                ids = (job.job_id for job in others)
                former.asked |= dict(zip(ids, (each.value for each in told), strict=True))

    def judge(self, job: FinishedJob, true: float, errors: Mapping[str, float]) -> None:
        """Keep how what was replaced did on a job, given its true value and all errors."""
        for former in self._formers:
            told = former.asked.pop(job.job_id, None)
            if told is not None and LOOP in errors:
                self.judged.append(
                    {"promoted_day": former.promoted_day, "kind": former.kind,
                     "group": group_of(job), "now": errors[LOOP],
                     "before": abs(np.log(told / max(true, 0.1)))}
                )  # fmt: skip


def kind_of(model: str) -> str:
    """Return the kind of answers that a registered model gives."""
    return SLOWDOWN if "interference" in model else RUNTIME


def group_of(job: FinishedJob) -> str:
    """Return what repeats a job: the same pair, or one submission of many jobs."""
    (segment, *_) = job.segments
    if segment.neighbour_keys:
        return "\n".join([job.job_key, *segment.neighbour_keys, segment.gpu_model])
    return f"{job.user}\n{job.job_key}\n{job.submit_time // 60}"
