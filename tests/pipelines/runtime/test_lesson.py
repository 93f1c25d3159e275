from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from data.domain import FinishedJob, Outcome
from data.jobs_frame import jobs_frame
from data.schemas import JOBS, checked
from pipelines.retraining.finished_jobs import FinishedJobs
from pipelines.runtime.lesson import RuntimeLesson

NOTHING = checked(pd.DataFrame(columns=JOBS.names), JOBS, "none")


def finished(count, seed=0, slower=1.0):
    """Jobs of three keys, each about as long as its key says, one a minute."""
    noise = np.random.default_rng(seed).lognormal(0, 0.05, count)
    jobs = []
    for i in range(count):
        submit, runtime_s = 60.0 * i, slower * (20.0, 100.0, 400.0)[i % 3] * noise[i]
        facts = ("q", f"k{i % 3}", 1, submit, submit + 1, submit + 1 + runtime_s, Outcome.OK)
        jobs.append(FinishedJob(f"j{i}", 1, f"u{i % 2}", *facts))
    return FinishedJobs("log", list(range(1, count + 1)), jobs)


@pytest.fixture(scope="module")
def lesson():
    return RuntimeLesson(NOTHING, finished(120), seed=1)


@pytest.fixture(scope="module")
def trained(lesson):
    return [bundle for bundle, _ in lesson.trained(60)]


def test_both_models_learn_from_the_entries_up_to_a_number(lesson, trained):
    assert [bundle.spec.name for bundle in trained] == list(RuntimeLesson.models)
    assert trained[0].spec.facts["rows"] == "60"


def test_the_jobs_beyond_it_are_answered_in_order(lesson, trained):
    answers = lesson.answers(trained, 60)
    assert answers.errors.shape == answers.covered.shape == (60,)
    assert np.isfinite(answers.errors).all()
    # Far better than a constant, whose error of the logarithm is about 1 here.
    assert answers.errors.mean() < 0.5
    assert lesson.answers(trained, 118).errors == pytest.approx(answers.errors[-2:])


def test_jobs_known_from_elsewhere_are_learnt_but_never_judge(trained):
    known = jobs_frame(finished(60, seed=3).jobs).assign(user="other")
    lesson = RuntimeLesson(known, finished(40), seed=1)
    (cluster, _), _ = lesson.trained(20)
    assert cluster.spec.facts["rows"] == "80"
    assert len(lesson.answers(trained, 20).errors) == 20


def test_a_batch_of_one_user_is_one_group():
    jobs = finished(6)
    lesson = RuntimeLesson(NOTHING, jobs, seed=1)
    assert len(set(lesson.groups)) == 6
    same = [replace(job, user="u", job_key="k", submit_time=0.5) for job in jobs.jobs]
    together = RuntimeLesson(NOTHING, FinishedJobs("log", jobs.sequences, same), seed=1)
    assert len(set(together.groups)) == 1


def test_a_wrong_runtime_neither_teaches_nor_judges_and_is_listed_with_the_reason():
    log = finished(120)
    wrong = replace(log.jobs[50], finish_time=log.jobs[50].start_time + 9000.0)
    lesson = RuntimeLesson(NOTHING, replace(log, jobs=[*log.jobs[:50], wrong, *log.jobs[51:]]), 1)
    assert 51 not in lesson.sequences
    assert len(lesson.sequences) == len(lesson.groups) == 119
    (_, report), _ = lesson.trained(60)
    assert (
        "j50,1.0,u0,unlike_its_repeats,9000 s among runs of" in report.documents["quarantine.csv"]
    )
    assert len(report.dataset) == 59
