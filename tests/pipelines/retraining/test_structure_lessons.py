import numpy as np
import pytest

from data.sample_data import sample_runs
from pipelines.initial_tables import sample_structures
from pipelines.labelling.from_runs import memory_runs_from_runs, usable
from pipelines.retraining.structure_lessons import DemandLesson, MemoryLesson
from tests.pipelines.sample_jobs import divided


@pytest.fixture(scope="module")
def sample():
    older, finished = divided(10, 40, known_together=1)
    return memory_runs_from_runs(older, sample_structures()), finished


@pytest.fixture(scope="module", params=[MemoryLesson, DemandLesson])
def lesson(request, sample):
    return request.param(*sample, seed=1)


@pytest.fixture(scope="module")
def trained(lesson):
    return lesson.trained(25)


def test_jobs_that_ran_alone_and_have_a_structure_are_the_rows(lesson, sample):
    alone = [
        number
        for number, job in zip(sample[1].sequences, sample[1].jobs, strict=True)
        if job.structure and "gpu_mem_peak_mib" in job.signals
    ]
    assert lesson.sequences.tolist() == alone
    assert len(alone) == 40
    assert lesson.groups.tolist()[0] in set(sample_runs()["job_key"])


def test_the_model_learns_what_was_known_and_the_log_up_to_a_number(lesson, sample, trained):
    ((bundle, report),) = trained
    assert (bundle.spec.name,) == lesson.models
    learnt = len(usable(sample[0])) + int((lesson.sequences <= 25).sum())
    assert len(report.dataset) == learnt


def test_the_newest_rows_are_answered_with_small_errors(lesson, trained):
    answers = lesson.answers([bundle for bundle, _ in trained], 25)
    fresh = int((lesson.sequences > 25).sum())
    assert answers.errors.shape == answers.covered.shape == (fresh,)
    assert np.isfinite(answers.errors).all()
    assert ((answers.covered >= 0) & (answers.covered <= 1)).all()
    # All these programs were measured before: a repeat is within half of what was seen.
    assert np.median(answers.errors) < 0.5
    assert answers.covered.mean() > 0.5
