"""Forecasts for a cycle from the best source there is: model, last good, heuristic, exclusive.

The loop never stops because the endpoint is down, slow or wrong: whatever happens, every
pending job gets a forecast, and the forecast says at which level it was made.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from data.domain import Card, Estimate, JobRequest, Placement
from data.errors import PredictionError, PredictionRefusedError
from scheduler_client.config import PredictionSettings
from scheduler_client.events import log_fault
from scheduler_client.forecast.asking import Asking, LevelWatch
from scheduler_client.forecast.heuristic import heuristic_forecast
from scheduler_client.forecast.last_good import Known, LastGood
from scheduler_client.forecast.predictor import Predictor
from scheduler_client.forecast.profiles import ProfileBook
from scheduler_client.forecast.runtime_answers import RuntimeAnswers
from scheduler_client.policy.card_classes import card_classes
from scheduler_client.policy.decisions import Level
from scheduler_client.policy.predictions import CardClass, JobClass, JobForecast, Predictions
from scheduler_client.policy.view import ClusterView

NO_MODEL = "none"
"""The model version of an estimate that no model made."""
LEAST_REFUSAL_S = 1.0
"""For so long, at least, a refused question is not asked again."""


@dataclass(frozen=True, slots=True)
class _Question:
    """A job, and examples of the classes of cards it might go to."""

    job: JobRequest
    classes: tuple[CardClass, ...]
    cards: tuple[Card, ...]


class Forecaster:
    """Asks the predictor, remembers its answers, and bridges its outages.

    Parameters
    ----------
    predictor : Predictor
    settings : PredictionSettings
    profiles : ProfileBook
        For the heuristic; it may grow between cycles.
    clock : callable
        Returns monotonic seconds.
    """

    def __init__(
        self,
        predictor: Predictor,
        settings: PredictionSettings,
        profiles: ProfileBook,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._predictor, self._settings = predictor, settings
        self._profiles, self._clock = profiles, clock
        self._last_good = LastGood(settings.fresh_s, settings.last_good_s)
        self._runtimes = RuntimeAnswers(predictor, settings, clock)
        self._refused_until_s: dict[JobClass, float] = {}
        self._rest_s = max(LEAST_REFUSAL_S, settings.fresh_s)
        self._newest_question: _Question | None = None
        self._watch = LevelWatch("placements")

    @property
    def level(self) -> Level:
        """The worst level of the newest cycle that was answered, or hit by an outage."""
        return self._watch.level

    def forecast(self, view: ClusterView, max_jobs_per_card: int) -> Predictions:
        """Return a forecast for every pending job of `view`, whatever the endpoint does."""
        asking = Asking(self._clock() + self._settings.deadline_s)
        jobs = [pending.job for pending in view.pending]
        classes = card_classes(view.cards, [job.job_key for job in jobs], max_jobs_per_card)
        examples: dict[JobClass, JobRequest] = {}
        for job in jobs:
            examples.setdefault(JobClass.of(job), job)
        by_class = {
            job_class: self._of_class(job, classes, view, asking)
            for job_class, job in examples.items()
        }
        refused = self._refused_until_s.items()
        self._refused_until_s = {c: until_s for c, until_s in refused if c in by_class}
        if not jobs:
            self._probe(asking)
        levels = [forecast.level for forecast in by_class.values()]
        self._watch.observe(max(levels, key=list(Level).index, default=Level.MODEL), asking)
        runtimes = self._runtimes.runtimes(jobs, asking)
        return {
            job.job_id: replace(by_class[JobClass.of(job)], runtime=runtimes.get(job.job_id))
            for job in jobs
        }

    def _of_class(
        self, job: JobRequest, classes: Sequence[CardClass], view: ClusterView, asking: Asking
    ) -> JobForecast:
        job_class = JobClass.of(job)
        missing = self._last_good.missing(job_class, classes, self._clock())
        if missing and self._may_ask(job_class) and asking.may_go(self._clock()):
            cards = tuple(_example(card, number, view) for number, card in enumerate(missing))
            missing = () if self._ask(_Question(job, missing, cards), asking) else missing
        known = self._last_good.usable(job_class, classes, self._clock())
        if not missing:
            return _forecast(known, Level.MODEL)
        shared = [card for card in classes if card.resident_keys]
        if known and (not shared or any(card in known for card in shared)):
            return _forecast(known, Level.LAST_GOOD)
        fallback = heuristic_forecast(job_class, classes, self._profiles)
        return replace(fallback, memory={**fallback.memory, **_memory(known)})

    def _ask(self, question: _Question, asking: Asking) -> bool:
        """Ask, and remember the answers; return whether a model gave them."""
        self._newest_question, job = question, question.job
        try:
            found = self._predictor.placements(job, question.cards, asking.left_s(self._clock()))
        except PredictionRefusedError as error:
            self._refused_until_s[JobClass.of(job)] = self._clock() + self._rest_s
            log_fault("refused", question="placements", job_id=job.job_id, error=str(error))
            return False
        except PredictionError as error:
            asking.error = error
            return False
        asking.was_answered = True
        self._keep(JobClass.of(job), zip(question.classes, found, strict=True), asking)
        return not asking.lacks_model

    def _keep(
        self,
        job_class: JobClass,
        answers: Iterable[tuple[CardClass, Placement]],
        asking: Asking,
    ) -> None:
        """Remember what a model said; an endpoint without one has its own guess, no prediction."""
        now_s = self._clock()
        for card, placement in answers:
            if card.resident_keys and placement.job_slowdown.model_version == NO_MODEL:
                asking.lacks_model = True
                self._refused_until_s[job_class] = now_s + self._rest_s
            else:
                self._last_good.put(job_class, card, placement, now_s)

    def _may_ask(self, job_class: JobClass) -> bool:
        """Return whether this very question was not refused a short while ago."""
        return self._clock() >= self._refused_until_s.get(job_class, float("-inf"))

    def _probe(self, asking: Asking) -> None:
        """Find out, by the newest question, whether a lost endpoint is back while no job waits."""
        if self._watch.level is not Level.MODEL and self._newest_question is not None:
            self._ask(self._newest_question, asking)


def _forecast(known: Mapping[CardClass, Known], level: Level) -> JobForecast:
    shared = {c: answer.colocation for c, answer in known.items() if c.resident_keys}
    return JobForecast(memory=_memory(known), colocations=shared, level=level)


def _memory(known: Mapping[CardClass, Known]) -> dict[str, Estimate]:
    return {card.gpu_model: answer.memory for card, answer in known.items()}


def _example(card: CardClass, number: int, view: ClusterView) -> Card:
    same = (state.free_mem_mib for state in view.cards if state.gpu_model == card.gpu_model)
    return card.example(f"class-{number}", max(same, default=0))
