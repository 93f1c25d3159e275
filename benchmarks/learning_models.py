"""How models are made here: as in production, less the reports that take most of the time."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

import pandas as pd

from data.schemas import JOBS, PROFILING_RUNS, checked
from pipelines.interference import training
from pipelines.interference.calibration import calibrated_bundle
from pipelines.interference.fit import ForestOptions, InterferenceData, uncalibrated_bundle
from pipelines.interference.lesson import InterferenceLesson
from pipelines.registering.report import TrainingReport, provenance_facts
from pipelines.retraining.finished_jobs import FinishedJobs
from pipelines.retraining.lessons import Lesson
from pipelines.retraining.once import RowsOnce
from pipelines.retraining.run_rows import RunMemory
from pipelines.runtime import training as runtime_training
from pipelines.runtime.lesson import RuntimeLesson

SEED = 7
TAUGHT = ("interference", "runtime")
"""Kinds that these jobs can teach."""

OPTIONS = ForestOptions(trees=20, folds=2)
"""Of the interference forest, alike for all: the default's 200 trees take ten times as long."""

NO_RUNS = checked(pd.DataFrame(columns=PROFILING_RUNS.names), PROFILING_RUNS, "none")
NO_JOBS = checked(pd.DataFrame(columns=JOBS.names), JOBS, "none")


def lessons(kinds: Collection[str]) -> Mapping[str, Callable[[FinishedJobs], list[Lesson]]]:
    """Return what jobs teach some kinds, as ``duties`` has it, without anything known before."""
    runs, rows = RunMemory(), RowsOnce()
    every = {
        "interference": lambda jobs: [InterferenceLesson(NO_RUNS, jobs, SEED, runs)],
        "runtime": lambda jobs: [RuntimeLesson(NO_JOBS, jobs, SEED, rows)],
    }
    return {kind: every[kind] for kind in TAUGHT if kind in kinds}


def without_reports() -> None:
    """Let this process train without reports, for all who are compared."""
    training.train_interference = model_alone
    training.interference_values = values_alone
    runtime_training.predicted_against_measured = nothing_drawn
    runtime_training.coverage_by_history = nothing_drawn


def model_alone(labels, profiles, seed, audit=None, options=OPTIONS):
    """Train as ``train_interference`` does, without its report: that is most of the time."""
    data = _data(labels, profiles, audit)
    bundle, _ = calibrated_bundle(data, options, seed)
    facts = {**provenance_facts(labels), "floor": f"{data.floor:.4f}"}
    bundle = replace(bundle, spec=replace(bundle.spec, facts=facts))
    return bundle, TrainingReport({}, {}, labels, "labels", "# colocast-interference")


def values_alone(labels, profiles, seed, audit=None, options=OPTIONS):
    """Train as ``interference_values`` does, with the same few trees as `model_alone`."""
    return uncalibrated_bundle(_data(labels, profiles, audit), options, seed)


def _data(labels, profiles, audit):
    floor = audit.noise.floor if audit else min(1.0, float(labels["slowdown"].min()))
    return InterferenceData(labels.reset_index(drop=True), profiles, floor)


def nothing_drawn(*_):
    """Stand for a picture of a report."""
    return b""


def nothing_to_learn(*_):
    """Stand for the kinds that these jobs cannot teach."""
    return []
