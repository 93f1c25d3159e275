"""What ``colocast evaluate`` can be asked for: each model's rows of metrics, on its own splits."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import pandas as pd

from data.errors import SettingError
from data.settings import Settings
from pipelines.initial_tables import initial_jobs, initial_memory_runs, initial_runs
from pipelines.judged import Keep, dropped
from pipelines.labelling.audit_rules import ALL_ROWS, AuditRules
from pipelines.progress import progress

SEED = 7
Rows = list[dict[str, object]]


@dataclass(frozen=True, slots=True)
class Question:
    """What to measure.

    Attributes
    ----------
    splits : sequence of str
        Ways of holding out; empty: all that the model knows.
    data : Path, optional
        What to hold out from; by default what was imported, else the sample.
    train, test : Path, optional
        Both or none: learn from one, ask the other.
    from_time_s : float, optional
        Runtime only: measure jobs submitted from then on (s since 1970, UTC).
    measured : sequence of int
        Interference only: for how many measured pairs of each new job to report.
    all_rows : bool
        Interference only: learn from and ask also what the label audit would quarantine, for
        comparison with results published on all rows.
    """

    splits: Sequence[str] = ()
    data: Path | None = None
    train: Path | None = None
    test: Path | None = None
    from_time_s: float | None = None
    measured: Sequence[int] = (0,)
    all_rows: bool = False


def interference_rows(question: Question, settings: Settings, keep: Keep = dropped) -> Rows:
    """Measure the interference model by pair, configuration and family, or on a test set."""
    from pipelines.interference.evaluate import (  # noqa: PLC0415 - one model at a time
        OUTER_FOLDS,
        Plan,
        evaluate_given_interference,
        evaluate_interference,
    )

    if question.test is not None:
        train, test = _given(question, settings, initial_runs)
        return [evaluate_given_interference(train, test, SEED, keep=keep)]
    runs = initial_runs(settings, question.data)
    plan = Plan(question.measured, ALL_ROWS if question.all_rows else AuditRules())
    return evaluate_interference(
        runs, question.splits or tuple(OUTER_FOLDS), SEED, plan=plan, keep=keep
    )


def memory_rows(question: Question, settings: Settings, keep: Keep = dropped) -> Rows:
    """Measure the memory model by configuration and by extrapolation, or on a test set."""
    from pipelines.memory.evaluate import (  # noqa: PLC0415 - one model at a time
        SPLITS,
        evaluate_given_memory,
        evaluate_memory,
    )

    if question.test is not None:
        train, test = _given(question, settings, initial_memory_runs)
        return [evaluate_given_memory(train, test, SEED, keep=keep)]
    runs = initial_memory_runs(settings, question.data)
    return evaluate_memory(runs, question.splits or SPLITS, SEED, keep=keep)


def demand_rows(question: Question, settings: Settings, keep: Keep = dropped) -> Rows:
    """Measure the demand forest on architectures that it never saw, or on a test set."""
    from pipelines.demand.evaluate import (  # noqa: PLC0415 - one model at a time
        SPLITS,
        evaluate_demand,
        evaluate_given_demand,
    )

    if question.test is not None:
        train, test = _given(question, settings, initial_memory_runs)
        return [evaluate_given_demand(train, test, SEED, keep=keep)]
    runs = initial_memory_runs(settings, question.data)
    return evaluate_demand(runs, question.splits or SPLITS, SEED, keep=keep)


def runtime_rows(question: Question, settings: Settings, keep: Keep = dropped) -> Rows:
    """Measure the runtime models prequentially, by finish time."""
    from pipelines.runtime.evaluate import evaluate_runtime  # noqa: PLC0415 - one at a time

    if question.test is not None:
        raise SettingError("runtime takes no --train and --test; wanted --data and --from")
    if question.splits:
        raise SettingError("runtime has one split, by finish time: leave --split out")
    jobs = initial_jobs(settings, question.data)
    found = evaluate_runtime(
        jobs,
        question.from_time_s,
        seed=SEED,
        progress=lambda fits: progress(fits, "refitting"),
        keep=keep,
    )
    return [dict(row) for row in found]


EVALUATIONS: Mapping[str, Callable[[Question, Settings, Keep], Rows]] = {
    "interference": interference_rows,
    "memory": memory_rows,
    "demand": demand_rows,
    "runtime": runtime_rows,
}


def checked_question(question: Question) -> Question:
    """Return `question` if it can be asked.

    Raises
    ------
    SettingError
        If only one of train and test is given, or one of them together with data or splits.
    """
    if (question.train is None) != (question.test is None):
        raise SettingError("found only one of --train and --test, wanted both or none")
    if question.test is not None and (question.data is not None or question.splits):
        raise SettingError("found --train and --test with --data or --split, wanted one or other")
    return question


def question_params(question: Question) -> dict[str, str]:
    """Return what was asked, as parameters of a run; what was left out stays out."""
    return {
        name: str(value)
        for name, value in asdict(question).items()
        if value not in (None, (), False)
    }


def _given(
    question: Question,
    settings: Settings,
    read: Callable[[Settings, Path | None], pd.DataFrame],
) -> tuple[pd.DataFrame, pd.DataFrame]:
    return read(settings, question.train), read(settings, question.test)
