"""What is done for every kind of model, wired to one installation."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

from data.errors import SettingError
from data.settings import Settings
from pipelines.initial_tables import initial_jobs, initial_memory_runs, initial_runs
from pipelines.interference.lesson import InterferenceLesson
from pipelines.registering.loaded_versions import LoadedVersions
from pipelines.registering.push import push
from pipelines.registering.registry import Registry
from pipelines.registering.retention import RetentionRules, decided_versions, pruned
from pipelines.registering.tracking_store import is_server
from pipelines.retraining.challenge import LessonChallenger, answered
from pipelines.retraining.finished_jobs import FinishedJobs
from pipelines.retraining.gate_terms import GateRules
from pipelines.retraining.lessons import Lesson
from pipelines.retraining.once import Once, RowsOnce
from pipelines.retraining.parent_run import RetrainRun
from pipelines.retraining.promotion import Promotions, ShadowRules
from pipelines.retraining.retrainer import LOG, WATCHED_JOBS, Duty
from pipelines.retraining.run_rows import RunMemory
from pipelines.retraining.speeds import RelativeTimes
from pipelines.retraining.structure_lessons import DemandLesson, MemoryLesson
from pipelines.retraining.watch import WatchRules
from pipelines.retraining.watcher import LessonWatcher
from pipelines.runtime.lesson import RuntimeLesson
from pipelines.telemetry.enriched import with_telemetry

SEED = 7


@dataclass(frozen=True, slots=True)
class LoopRules:
    """How challengers are judged, shadowed and watched.

    Attributes
    ----------
    gate : GateRules
    shadow : ShadowRules
    watch : WatchRules
    has_shadow : bool
        Whether a challenger shadows before it is promoted.
    """

    gate: GateRules = field(default_factory=GateRules)
    shadow: ShadowRules = field(default_factory=ShadowRules)
    watch: WatchRules = field(default_factory=WatchRules)
    has_shadow: bool = True


def duties(
    settings: Settings,
    shield: Callable[[], AbstractContextManager[object]] = nullcontext,
    rules: LoopRules | None = None,
) -> Mapping[str, Duty]:
    """Return what is done for each kind in ``state.KINDS``.

    Parameters
    ----------
    settings : Settings
        The initial tables are read anew at each attempt, for the user may have imported more.
    shield : callable
        Entered while the registry is written.
    rules : LoopRules, optional
    """
    rules = rules or LoopRules()
    remote = is_server(settings.tracking_uri)
    run = RetrainRun(settings.tracking_uri, None if remote else settings.artifacts_path)

    loaded = LoadedVersions()
    times = Once(lambda: RelativeTimes().of)

    def registry() -> Registry:
        return Registry(settings.tracking_uri, settings.artifacts_path, loaded)

    return {
        kind: Duty(
            LessonChallenger(
                registry,
                run,
                lessons,
                rules.gate,
                shield,
                rules.shadow.rows if rules.has_shadow else 0,
            ),
            LessonWatcher(
                registry,
                WATCHED_LESSONS[kind](settings),
                rules.watch,
                Promotions(answered, rules.shadow, shield),
                times,
            ),
        )
        for kind, lessons in ((kind, LESSONS[kind](settings)) for kind in LESSONS)
    }


def after_promotion(settings: Settings) -> Callable[[FinishedJobs], object]:
    """Return what deletes versions that nothing needs once a champion changed."""

    def prune(finished: FinishedJobs) -> object:
        newest = max((job.finish_time for job in finished.jobs), default=0.0)
        decided = decided_versions(finished.jobs, newest - RetentionRules().audit_s)
        return pruned(Registry(settings.tracking_uri, settings.artifacts_path), decided)

    return prune


def tell_services(environ: Mapping[str, str]) -> Callable[[str], object]:
    """Return what pushes to the services that a model's champion changed, see ``push``.

    Whatever is in the way of it is logged and costs nothing: they poll all the same.
    """

    def tell(model: str) -> None:
        def say(reason: object) -> None:
            LOG.warning("event=not_pushed model=%s reason=%s", model, reason)

        try:
            push(environ, model, say)
        except SettingError as error:
            say(error)

    return tell


Lessons = Callable[[FinishedJobs], Sequence[Lesson]]


def _interference(settings: Settings) -> Lessons:
    memory = RunMemory()
    return lambda jobs: [
        InterferenceLesson(initial_runs(settings), _measured(settings, jobs), SEED, memory)
    ]


def _runtime(settings: Settings) -> Lessons:
    return lambda jobs: [RuntimeLesson(initial_jobs(settings), jobs, SEED)]


def _newest_runtime(settings: Settings) -> Lessons:
    memory = RowsOnce()

    def lessons(jobs: FinishedJobs) -> Sequence[Lesson]:
        # The history of a job is its newest like; describing all that was imported takes long.
        known = initial_jobs(settings).sort_values("finish_time").tail(WATCHED_JOBS)
        return [RuntimeLesson(known, jobs, SEED, memory)]

    return lessons


def _structure(settings: Settings) -> Lessons:
    def lessons(jobs: FinishedJobs) -> Sequence[Lesson]:
        known, measured = initial_memory_runs(settings), _measured(settings, jobs)
        return [MemoryLesson(known, measured, SEED), DemandLesson(known, measured, SEED)]

    return lessons


def _measured(settings: Settings, jobs: FinishedJobs) -> FinishedJobs:
    return with_telemetry(settings.joblog_url, jobs)


LESSONS: Mapping[str, Callable[[Settings], Lessons]] = {
    "interference": _interference,
    "runtime": _runtime,
    "memory": _structure,
}
"""What finished jobs teach each kind."""

WATCHED_LESSONS = {**LESSONS, "runtime": _newest_runtime}
"""The same, as it is watched."""
