"""The challengers of every kind, wired to one installation."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager

from data.settings import Settings
from pipelines.initial_tables import initial_jobs, initial_memory_runs, initial_runs
from pipelines.interference.lesson import InterferenceLesson
from pipelines.registering.registry import Registry
from pipelines.retraining.challenge import Lesson, LessonChallenger
from pipelines.retraining.finished_jobs import FinishedJobs
from pipelines.retraining.gate import GateRules
from pipelines.retraining.parent_run import RetrainRun
from pipelines.retraining.retrainer import Challenger
from pipelines.retraining.structure_lessons import DemandLesson, MemoryLesson
from pipelines.runtime.lesson import RuntimeLesson

SEED = 7


def challengers(
    settings: Settings,
    shield: Callable[[], AbstractContextManager[object]],
    rules: GateRules | None = None,
) -> Mapping[str, Challenger]:
    """Return the challenger of each kind in ``retrain_state.KINDS``.

    Parameters
    ----------
    settings : Settings
        The initial tables are read anew at each attempt, for the user may have imported more.
    shield : callable
        Entered while the registry is written.
    rules : GateRules, optional
    """
    local = settings.tracking_uri.startswith("sqlite:")
    run = RetrainRun(settings.tracking_uri, settings.artifacts_path if local else None)
    lessons: Mapping[str, Callable[[FinishedJobs], Sequence[Lesson]]] = {
        "interference": lambda jobs: [InterferenceLesson(initial_runs(settings), jobs, SEED)],
        "runtime": lambda jobs: [RuntimeLesson(initial_jobs(settings), jobs, SEED)],
        "memory": lambda jobs: [
            MemoryLesson(initial_memory_runs(settings), jobs, SEED),
            DemandLesson(initial_memory_runs(settings), jobs, SEED),
        ],
    }
    return {
        kind: LessonChallenger(
            lambda: Registry(settings.tracking_uri, settings.artifacts_path),
            run,
            made,
            rules or GateRules(),
            shield,
        )
        for kind, made in lessons.items()
    }
