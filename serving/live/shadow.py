"""A challenger on live requests: it answers what the champion is asked, later and unseen.

The versions with the alias ``shadow`` are loaded beside the champions. Whatever the champions have
answered is asked of them as well, in a thread of their own; nobody waits for it, and where it
falls behind it skips requests. When a job has finished, the errors of both are counted.
"""

import logging
import threading
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import log
from typing import Protocol

from data.domain import Card, Estimate, FinishedJob, JobRequest, Outcome, Pair, Placement
from data.errors import ColocastError
from features.exposure import exposure, lone_neighbour
from serving.predictor import Predictor

LOG = logging.getLogger(__name__)
LONGEST_QUEUE = 256  # requests; older ones are skipped
REMEMBERED = 20_000  # answers that no outcome is known of yet
TOLD_EVERY = 8
RUNTIME, SLOWDOWN = "runtime", "slowdown"

Key = tuple[str, ...]
"""What an answer was about: a job id, or job key, neighbour key and GPU model."""


@dataclass(frozen=True, slots=True)
class Question:
    """What the champion was asked, and what it answered."""

    kind: str
    keys: Sequence[Key]
    values: Sequence[float]
    ask: Callable[[Predictor], Sequence[Estimate]]


@dataclass(frozen=True, slots=True)
class Both:
    """What champion and shadow answered."""

    champion: float
    shadow: float


@dataclass(slots=True)
class Errors:
    """Sums of absolute log errors over outcomes."""

    count: int = 0
    champion: float = 0.0
    shadow: float = 0.0

    def add(self, both: Both, observed: float) -> None:
        """Count one outcome."""
        self.count += 1
        self.champion += abs(log(both.champion / observed))
        self.shadow += abs(log(both.shadow / observed))


class Told(Protocol):
    """Who is told of the comparison; ``serving.metrics.Metrics`` is one."""

    def shadow(self, kind: str, count: int, champion: float, shadow: float) -> None:
        """Note how many outcomes are known, and both mean errors."""
        ...


@dataclass(slots=True)
class Shadow:
    """Answers beside the champions.

    Attributes
    ----------
    predictor : callable
        Returns the predictor with the shadow's versions, or None while no version has the alias.
    alone_s : callable
        From job key and GPU model to the job's runtime alone (s), or None.
    told : Told
    """

    predictor: Callable[[], Predictor | None]
    alone_s: Callable[[str, str], float | None]
    told: Told
    _asked: "deque[Question]" = field(default_factory=lambda: deque(maxlen=LONGEST_QUEUE))
    _known: "OrderedDict[tuple[str, Key], Both]" = field(default_factory=OrderedDict)
    _errors: defaultdict[str, Errors] = field(default_factory=lambda: defaultdict(Errors))
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def hear(self, question: Question) -> None:
        """Note what was asked and answered; returns at once."""
        self._asked.append(question)

    def answer(self) -> int:
        """Answer what was heard since, and return how many answers that were."""
        predictor, count = self.predictor(), 0
        while self._asked:
            question = self._asked.popleft()
            if predictor is None:
                continue
            try:
                estimates = question.ask(predictor)
            except ColocastError as error:  # a challenger may fail; nobody must notice
                LOG.warning("the shadow cannot answer: %s", error)
                continue
            count += len(estimates)
            self._remember(question, estimates)
        return count

    def observe(self, jobs: Iterable[FinishedJob]) -> None:
        """Compare both with what finished jobs have shown."""
        for job in jobs:
            if job.outcome is not Outcome.OK or job.runtime_s <= 0:
                continue
            self._count(RUNTIME, (job.job_id,), job.runtime_s)
            found = exposure(job)
            alone_s = self.alone_s(job.job_key, found.gpu_model) if found.neighbours else None
            one = lone_neighbour(found, alone_s) if alone_s else None
            if one is not None:
                self._count(SLOWDOWN, (job.job_key, one[0], found.gpu_model), one[1])

    def errors(self) -> Mapping[str, Errors]:
        """Return the sums by kind of question."""
        return dict(self._errors)

    def forget(self) -> None:
        """Begin anew: other versions shadow from now on."""
        with self._lock:
            self._known.clear()
            self._errors.clear()

    def _remember(self, question: Question, found: Sequence[Estimate]) -> None:
        with self._lock:
            for key, value, estimate in zip(question.keys, question.values, found, strict=True):
                # The last answer before the outcome counts, as it is what decisions used.
                self._known[question.kind, key] = Both(value, estimate.value)
                self._known.move_to_end((question.kind, key))
            while len(self._known) > REMEMBERED:
                self._known.popitem(last=False)

    def _count(self, kind: str, key: Key, observed: float) -> None:
        with self._lock:
            # A pair may run again, a job ends once.
            both = self._known.get((kind, key))
            if both is None:
                return
            if kind == RUNTIME:
                del self._known[kind, key]
            sums = self._errors[kind]
            sums.add(both, observed)
            count, champion, shadow = (
                sums.count, sums.champion / sums.count, sums.shadow / sums.count,
            )  # fmt: skip
        self.told.shadow(kind, count, champion, shadow)
        if count % TOLD_EVERY == 0:
            LOG.info(
                "shadow %s: %d outcomes, mean error %.3f, champion %.3f",
                *(kind, count, shadow, champion),
            )


class Overheard:
    """A predictor whose answers the shadow hears; all of them are the champion's own.

    Parameters
    ----------
    predictor : Predictor
    shadow : Shadow
    """

    def __init__(self, predictor: Predictor, shadow: Shadow) -> None:
        self._predictor, self._shadow = predictor, shadow

    def __getattr__(self, name: str) -> object:
        return getattr(self._predictor, name)

    def runtimes(
        self, jobs: Sequence[JobRequest], running: Sequence[JobRequest] = ()
    ) -> tuple[Estimate, ...]:
        """Answer as the champion does, and let the shadow answer later."""
        estimates = self._predictor.runtimes(jobs, running)
        keys = [(job.job_id,) for job in jobs]
        self._hear(RUNTIME, keys, estimates, lambda other: other.runtimes(jobs, running))
        return estimates

    def slowdowns(self, pairs: Sequence[Pair]) -> tuple[Estimate, ...]:
        """Answer as the champion does, and let the shadow answer later."""
        estimates = self._predictor.slowdowns(pairs)
        keys = [(pair.job_key, pair.neighbour_key, pair.gpu_model) for pair in pairs]
        self._hear(SLOWDOWN, keys, estimates, lambda other: other.slowdowns(pairs))
        return estimates

    def placements(self, job: JobRequest, cards: Sequence[Card]) -> tuple[Placement, ...]:
        """Answer as the champion does, and let the shadow answer later of one neighbour a card."""
        placements = self._predictor.placements(job, cards)
        shared = {card.card_id: card for card in cards if len(card.residents) == 1}
        seen = [p for p in placements if p.card_id in shared]
        keys = [
            (job.job_key, card.residents[0].job_key, card.gpu_model)
            for card in (shared[p.card_id] for p in seen)
        ]
        if seen:

            def ask(other: Predictor) -> Sequence[Estimate]:
                found = other.placements(job, list(shared.values()))
                told = {p.card_id: p.job_slowdown for p in found}
                return [told[p.card_id] for p in seen]

            self._hear(SLOWDOWN, keys, [p.job_slowdown for p in seen], ask)
        return placements

    def _hear(
        self,
        kind: str,
        keys: Sequence[Key],
        estimates: Sequence[Estimate],
        ask: Callable[[Predictor], Sequence[Estimate]],
    ) -> None:
        self._shadow.hear(Question(kind, keys, [each.value for each in estimates], ask))
