"""Looks for drift in how the champions of one kind answer the jobs that finish."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from pipelines.registering.registry import Registry
from pipelines.retraining.champions import champions, learnt_sequence
from pipelines.retraining.finished_jobs import FinishedJobs
from pipelines.retraining.lessons import Lesson
from pipelines.retraining.observations import observations
from pipelines.retraining.once import Once
from pipelines.retraining.promotion import Promotions
from pipelines.retraining.retrainer import Challenge, Watched
from pipelines.retraining.speeds import RelativeTimes
from pipelines.retraining.watch import Drift, WatchRules, drifts


@dataclass(frozen=True, slots=True)
class LessonWatcher:
    """Watches the lessons of one kind; see ``retrainer.Watcher``.

    Attributes
    ----------
    registry : callable
        Opens the registry.
    lessons : callable
        Finished jobs to the lessons of this kind.
    rules : WatchRules
    promotions : Promotions, optional
        Ends shadow runs and undoes promotions.
    times : Once
        How long jobs took against what is usual; the watchers of one log may share it.
    """

    registry: Callable[[], Registry]
    lessons: Callable[[FinishedJobs], Sequence[Lesson]]
    rules: WatchRules = field(default_factory=WatchRules)
    promotions: Promotions | None = None
    times: Once[float] = field(default_factory=lambda: Once(lambda: RelativeTimes().of))

    def __call__(self, finished: FinishedJobs, since: int) -> Watched:
        """Return what was settled, and the change that was found first, see ``Watcher``."""
        registry = self.registry()
        settled: list[Challenge] = []
        found: list[Drift] = []
        for lesson in self.lessons(finished):
            if self.promotions is not None:
                settled += self.promotions.settled(registry, lesson, finished)
                settled += self.promotions.guarded(registry, lesson, finished)
            found += self._drifts(registry, lesson, finished, since)
        return Watched(min(found, key=lambda drift: drift.sequence, default=None), settled)

    def _drifts(
        self, registry: Registry, lesson: Lesson, finished: FinishedJobs, since: int
    ) -> Sequence[Drift]:
        serving = champions(registry, lesson.models)
        after = max(since, learnt_sequence(serving, finished.joblog))
        if not serving or (lesson.sequences > after).sum() < self.rules.fewest:
            return []
        slower = self.times.of(finished.jobs)
        return drifts(observations(lesson, serving, finished, after, slower), self.rules)
