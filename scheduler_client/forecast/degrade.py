"""Forecasts for a cycle from the best source there is: model, last good, heuristic, exclusive.

The loop never stops because the endpoint is down, slow or wrong: whatever happens, every
pending job gets a forecast, and the forecast says at which level it was made.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from data.domain import Card, Estimate, JobRequest, Placement
from data.errors import PredictionError, PredictionRefusedError
from scheduler_client.config import PredictionSettings
from scheduler_client.events import log_fault
from scheduler_client.forecast.asking import Asking, LevelWatch
from scheduler_client.forecast.heuristic import heuristic_forecast
from scheduler_client.forecast.last_good import Classes, LastGood
from scheduler_client.forecast.predictor import NO_MODEL, Predictor
from scheduler_client.forecast.profiles import ProfileBook
from scheduler_client.forecast.running_answers import RunningAnswers
from scheduler_client.forecast.runtime_answers import RuntimeAnswers
from scheduler_client.policy.card_classes import card_classes
from scheduler_client.policy.decisions import Level
from scheduler_client.policy.predictions import CardClass, JobClass, JobForecast, Predictions
from scheduler_client.policy.view import ClusterView

LEAST_REFUSAL_S = 1.0
"""For so long, at least, a refused question is not asked again."""


@dataclass(frozen=True, slots=True)
class _Question:
    """A job, and examples of the classes of cards it might go to."""

    job: JobRequest
    classes: Classes
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
        self._running = RunningAnswers(predictor, settings, clock)
        self._rest: Asking | None = None
        self._refused_until_s: dict[JobClass, float] = {}
        self._rest_s = max(LEAST_REFUSAL_S, settings.fresh_s)
        self._newest_question: _Question | None = None
        self._took_s = 0.0
        self._classes: Classes = ()
        self._watch = LevelWatch("placements")

    @property
    def level(self) -> Level:
        """The worst level of the newest cycle that was answered, or hit by an outage."""
        return self._watch.level

    def forecast(self, view: ClusterView, max_jobs_per_card: int) -> Predictions:
        """Return a forecast for every pending job of `view`, whatever the endpoint does."""
        now_s, settings = self._clock(), self._settings
        asking = Asking(now_s + settings.deadline_s, now_s + settings.budget_s)
        jobs = [pending.job for pending in view.pending]
        classes = card_classes(view.cards, [job.job_key for job in jobs], max_jobs_per_card)
        classes = self._classes = self._classes if classes == self._classes else classes
        class_of = {job.job_id: JobClass.of(job) for job in jobs}
        examples: dict[JobClass, JobRequest] = {}
        for job in jobs:
            examples.setdefault(class_of[job.job_id], job)
        answered = self._asked(examples, classes, _Examples(view), asking)
        by_class = {
            job_class: self._of_class(job_class, classes, job_class in answered, asking)
            for job_class in examples
        }
        refused = self._refused_until_s.items()
        self._refused_until_s = {c: until_s for c, until_s in refused if c in by_class}
        if not jobs:
            self._probe(asking)
        levels = [forecast.level for forecast in by_class.values()]
        self._watch.observe(max(levels, key=list(Level).index, default=Level.MODEL), asking)
        self._rest = asking.rest()
        runtimes = self._runtimes.runtimes(view, self._rest)
        return {
            job.job_id: replace(by_class[class_of[job.job_id]], runtime=runtimes.get(job.job_id))
            for job in jobs
        }

    def repredicted(self, view: ClusterView) -> Mapping[str, Estimate]:
        """Return new estimates of whole runtimes (s) of jobs that run, by job id.

        Of a few only, in what `forecast` has left of its cycle; see `RunningAnswers`.
        """
        if self._rest is None:
            return {}
        return self._running.repredicted(view.running, view.now, self._rest)

    def _asked(
        self,
        examples: Mapping[JobClass, JobRequest],
        classes: Classes,
        cards: "_Examples",
        asking: Asking,
    ) -> set[JobClass]:
        """Ask what is unknown, then what is stale, the oldest first, as long as there is time.

        Returns
        -------
        set of JobClass
            Those about which a model answered everything that was asked.
        """
        now_s = self._clock()
        open_: list[tuple[bool, float, int, JobClass, Classes]] = []
        for number, job_class in enumerate(examples):
            known = self._last_good.answers(job_class, classes, now_s)
            if known.missing and self._may_ask(job_class):
                row = (known.is_whole, known.oldest_s, number, job_class, known.missing)
                open_.append(row)
        answered = set()
        for is_known, _, _, job_class, missing in sorted(open_, key=lambda found: found[:3]):
            if is_known and self._clock() - now_s > self._settings.budget_s / 2:
                break  # what is known, if stale, may wait for the next cycle
            if asking.may_go(self._clock(), self._took_s):
                question = _Question(examples[job_class], missing, cards.of(missing))
                if self._ask(question, asking):
                    answered.add(job_class)
            elif not is_known:
                asking.left_unknown = True
        return answered

    def _of_class(
        self, job_class: JobClass, classes: Classes, is_answered: bool, asking: Asking
    ) -> JobForecast:
        now_s = self._clock()
        known = self._last_good.answers(job_class, classes, now_s)
        age_s = max(0.0, now_s - known.oldest_s)  # nothing known: the oldest is infinitely late
        said = JobForecast(None, known.memory, known.colocations, Level.MODEL, age_s)
        is_well = asking.fault is None and self._may_ask(job_class)
        if is_answered or (known.is_whole and (is_well or not known.missing)):
            return said
        is_shared = any(card.resident_keys for card in classes)
        if known.memory and (not is_shared or any(c.resident_keys for c in known.colocations)):
            return replace(said, level=Level.LAST_GOOD)
        fallback = heuristic_forecast(job_class, classes, self._profiles)
        return replace(fallback, memory={**fallback.memory, **known.memory})

    def _ask(self, question: _Question, asking: Asking) -> bool:
        """Ask, and remember the answers; return whether a model gave them."""
        self._newest_question, job = question, question.job
        began_s = self._clock()
        try:
            found = self._predictor.placements(job, question.cards, asking.left_s(self._clock()))
        except PredictionRefusedError as error:
            self._refused_until_s[JobClass.of(job)] = self._clock() + self._rest_s
            log_fault("refused", question="placements", job_id=job.job_id, error=str(error))
            return False
        except PredictionError as error:
            asking.error = error
            return False
        self._took_s = self._clock() - began_s
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
        now_s, said = self._clock(), []
        for card, placement in answers:
            if card.resident_keys and placement.job_slowdown.model_version == NO_MODEL:
                asking.lacks_model = True
                self._refused_until_s[job_class] = now_s + self._rest_s
            else:
                said.append((card, placement))
        self._last_good.put(job_class, said, now_s)

    def _may_ask(self, job_class: JobClass) -> bool:
        """Return whether this very question was not refused a short while ago."""
        return self._clock() >= self._refused_until_s.get(job_class, float("-inf"))

    def _probe(self, asking: Asking) -> None:
        """Find out, by the newest question, whether a lost endpoint is back while no job waits."""
        if self._watch.level is not Level.MODEL and self._newest_question is not None:
            self._ask(self._newest_question, asking)


class _Examples:
    """Cards to ask with, made once for each set of classes."""

    def __init__(self, view: ClusterView) -> None:
        self._most_free_mib: dict[str, int] = {}
        for card in view.cards:
            known = self._most_free_mib.get(card.gpu_model, 0)
            self._most_free_mib[card.gpu_model] = max(known, card.free_mem_mib)
        self._made: dict[Classes, tuple[Card, ...]] = {}

    def of(self, classes: Classes) -> tuple[Card, ...]:
        if classes not in self._made:
            free = self._most_free_mib
            self._made[classes] = tuple(
                card.example(f"class-{number}", free.get(card.gpu_model, 0))
                for number, card in enumerate(classes)
            )
        return self._made[classes]
