from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pytest

from data.domain import Segment
from pipelines.interference import training as module
from pipelines.interference.fit import ForestOptions
from pipelines.interference.lesson import InterferenceLesson, of_shared_jobs
from pipelines.interference.training import train_interference
from pipelines.labelling.audit import audited
from pipelines.registering.report import TrainingReport
from pipelines.retraining.finished_jobs import FinishedJobs
from pipelines.retraining.production import production_runs
from tests.pipelines.sample_jobs import divided

NEWEST = 80
SMALL = ForestOptions(trees=20, folds=2)


@pytest.fixture(scope="module")
def sample():
    return divided(NEWEST - 10, 10, known_together=30)


@pytest.fixture(scope="module")
def lesson(sample):
    return InterferenceLesson(*sample, seed=1)


@pytest.fixture(scope="module")
def trained(lesson):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "train_interference", partial(train_interference, options=SMALL))
        return lesson.trained(40)


def test_colocated_jobs_that_pass_the_audit_are_its_rows(lesson, sample):
    _, finished = sample
    together = [n for n, job in zip(finished.sequences, finished.jobs, strict=True)
                if job.segments[0].neighbour_keys]  # fmt: skip
    assert lesson.sequences.tolist() == together
    assert len(lesson.groups) == len(together)
    assert "\ncpu" in lesson.groups[0]


def test_the_model_learns_the_known_runs_and_the_log_up_to_a_number(lesson, sample, trained):
    ((bundle, report),) = trained
    older = len(audited(sample[0]).labels)
    learnt = older + int((lesson.sequences <= 40).sum())
    assert bundle.spec.facts["rows"] == str(learnt) == str(len(report.dataset))
    assert not report.dataset["run_id"].isin([f"job:{NEWEST}:1"]).any()


def test_a_trial_has_the_values_of_the_model_before_it_is_calibrated(lesson, trained, monkeypatch):
    monkeypatch.setattr(
        module, "interference_values", partial(module.interference_values, options=SMALL)
    )
    ((bundle, _),) = trained
    (tried,) = lesson.trial(40)
    after = [lesson.answers([each], 40) for each in (bundle, tried)]
    assert after[0].errors == pytest.approx(after[1].errors, abs=1e-12)
    assert after[0].losses.tolist() == after[1].losses.tolist()


def test_the_newest_rows_are_answered_better_than_by_no_interference(lesson, trained):
    answers = lesson.answers([bundle for bundle, _ in trained], 40)
    fresh = int((lesson.sequences > 40).sum())
    assert answers.errors.shape == answers.covered.shape == (fresh,)
    ignorant = np.abs(np.log(lesson._labels["slowdown"].to_numpy()[-fresh:]))
    assert answers.errors.mean() < 0.6 * ignorant.mean()
    assert 0.5 < answers.covered.mean() <= 1
    assert 0 <= answers.losses.mean() < 1


def test_a_neighbour_that_never_ran_alone_is_left_out_of_training_but_judged(
    sample, trained, monkeypatch
):
    older, finished = sample
    strange = [_beside(job, "never-alone") for job in finished.jobs]
    lesson = InterferenceLesson(older, replace(finished, jobs=strange), seed=1)
    assert len(lesson.sequences)
    answers = lesson.answers([bundle for bundle, _ in trained], 0)
    assert np.isfinite(answers.errors).all()
    learnt = []
    report = TrainingReport({}, {}, older, "d", "")
    monkeypatch.setattr(
        module, "train_interference", lambda *given: learnt.append(given) or (None, report)
    )
    lesson.trained(NEWEST)
    ((labels, *_),) = learnt
    assert len(labels) == len(audited(older).labels)


def _beside(job, neighbour):
    segments = [
        Segment(s.start_time, s.finish_time, s.card_id, s.gpu_model,
                (neighbour,) if s.neighbour_keys else ())
        for s in job.segments
    ]  # fmt: skip
    return replace(job, segments=tuple(segments))


def test_without_finished_jobs_there_is_nothing_to_judge(sample):
    lesson = InterferenceLesson(sample[0], FinishedJobs("log", [], []), seed=1)
    assert lesson.sequences.tolist() == []
    assert lesson.groups.tolist() == []


def test_jobs_that_never_shared_a_card_have_no_part_in_a_label(sample):
    older, finished = sample
    runs = production_runs(finished.jobs, older)
    everything = pd.concat([older, runs], ignore_index=True)
    alone = everything[everything["neighbour_key"].isna()].head(5)
    strange = alone.assign(job_key="never-shared", run_id="strange-" + alone["run_id"])
    more = pd.concat([everything, strange], ignore_index=True)
    shared = of_shared_jobs(more)
    assert not shared["job_key"].isin(["never-shared"]).any()
    pd.testing.assert_frame_equal(audited(shared).labels, audited(more).labels)
