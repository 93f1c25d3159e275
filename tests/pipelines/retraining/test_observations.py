from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from data.domain import FinishedJob, ModelStructure, Outcome, Segment
from pipelines.retraining.finished_jobs import FinishedJobs
from pipelines.retraining.lessons import Answers
from pipelines.retraining.observations import observations, part_labels
from pipelines.retraining.pictures import error_over_time


def job(number, family="vision", model="A100", user="ada"):
    start = 100.0 * number
    structure = None if family is None else ModelStructure(family, 32)
    return FinishedJob(
        f"j{number}", 1, user, "q", f"key-{family}", 1, start, start, start + 10, Outcome.OK,
        (Segment(start, start + 10, "g0", model),), structure=structure,
    )  # fmt: skip


class Lesson:
    """Every second job is a usable row."""

    models = ("colocast-runtime-cluster",)

    def __init__(self, finished):
        self.sequences = np.array(finished.sequences[1::2])

    def answers(self, bundles, after):
        rows = int((self.sequences > after).sum())
        return Answers(np.arange(rows, dtype=float), np.arange(rows) % 2 == 0)


def log(*jobs):
    return FinishedJobs("log", list(range(1, len(jobs) + 1)), list(jobs))


def test_each_usable_job_is_observed_with_what_it_is():
    finished = log(*[job(n, user="eve" if n == 5 else "ada") for n in range(6)])
    seen = observations(Lesson(finished), [], finished, after=2)
    assert seen.sequences.tolist() == [4, 6]
    assert seen.finish_time.tolist() == [310.0, 510.0]
    assert seen.signals["error"].tolist() == [0.0, 1.0]
    assert seen.signals["coverage"].tolist() == [0.0, 1.0]
    assert seen.labels["user"].tolist() == ["ada", "eve"]
    assert "input" not in seen.signals  # nobody knows what is usual
    np.testing.assert_array_equal(
        part_labels(Lesson(finished), finished, 2)["family"], ["vision", "vision"]
    )


@pytest.mark.parametrize("new", [job(41, family="speech"), job(41, model="H100")])
def test_a_family_or_gpu_model_that_was_never_seen_is_new_input(new):
    finished = log(*[job(n) for n in range(40)], job(40), new, job(42), job(43))
    seen = observations(Lesson(finished), [], finished, after=40)
    assert seen.signals["input"].tolist() == [1.0, 0.0]


def test_profiles_of_the_champion_are_known_and_a_job_without_structure_is_of_no_family():
    table = pd.DataFrame({"family": ["speech"] * 20, "gpu_model": ["A100"] * 20})
    champion = SimpleNamespace(tables={"profiles": table})
    finished = log(job(0), job(1, family="speech"), job(2), replace(job(3), structure=None))
    seen = observations(Lesson(finished), [champion], finished, after=0)
    np.testing.assert_array_equal(seen.signals["input"], [0.0, np.nan])


def test_a_picture_of_errors_with_marks_is_a_png():
    marks = [(2.0, "tab:red", "drift"), (3.0, "tab:red", "drift")]
    png = error_over_time([1.0, 2.0, 3.0], {"loop": np.ones(3)}, marks)
    assert png.startswith(b"\x89PNG")
