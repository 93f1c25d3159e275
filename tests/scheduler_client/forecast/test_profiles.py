from dataclasses import replace

import pytest

from data.domain import FinishedJob, Outcome, Segment
from scheduler_client.forecast.profiles import ProfileBook

JOB = FinishedJob(
    "1",
    1,
    "ada",
    "q",
    "bert",
    1,
    0.0,
    0.0,
    10.0,
    Outcome.OK,
    (Segment(0.0, 10.0, "gpu0", "A100"),),
    signals={"gpu_util_mean": 0.4},
)


def test_a_finished_job_teaches_its_profile():
    book = ProfileBook()
    assert book.observe(JOB)
    assert book.signals("bert", "A100") == {"gpu_util_mean": 0.4}
    assert book.signals("bert", "T4") is None


def test_runs_are_averaged_signal_by_signal():
    book = ProfileBook()
    book.observe(JOB)
    book.observe(replace(JOB, signals={"gpu_util_mean": 0.8, "sm_active_mean": 0.5}))
    assert book.signals("bert", "A100") == pytest.approx(
        {"gpu_util_mean": 0.6, "sm_active_mean": 0.5}
    )


@pytest.mark.parametrize(
    "job",
    [
        replace(JOB, outcome=Outcome.FAILED),
        replace(JOB, signals={}),
        replace(JOB, segments=()),
        replace(JOB, segments=(*JOB.segments, Segment(0.0, 10.0, "gpu1", "T4"))),
    ],
)
def test_what_tells_nothing_certain_is_not_learnt(job):
    book = ProfileBook()
    assert not book.observe(job)
    assert book.signals("bert", "A100") is None


def test_a_book_survives_a_restart():
    book = ProfileBook()
    book.observe(JOB)
    again = ProfileBook.from_json(book.to_json())
    assert again.signals("bert", "A100") == book.signals("bert", "A100")
    assert ProfileBook.from_json(None).signals("bert", "A100") is None


def test_only_so_many_kinds_are_kept(monkeypatch):
    monkeypatch.setattr("scheduler_client.forecast.profiles.KEPT", 2)
    book = ProfileBook()
    for key in ("a", "b", "a", "c"):
        book.observe(replace(JOB, job_key=key))
    assert book.signals("b", "A100") is None
    assert book.signals("a", "A100")
