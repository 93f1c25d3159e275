import numpy as np
import pytest

from pipelines.retraining.finished_jobs import FinishedJobs, learnt_until


@pytest.mark.parametrize(
    ("sequences", "seen", "until"),
    [
        ([1, 2, 3, 4], 0, 2),
        ([1, 2, 3, 4, 5], 0, 3),  # of an odd number the more is learnt
        ([1, 2, 3, 4, 5, 6], 4, 5),
        ([1, 2, 3], 3, 3),
        ([7], 3, 7),
        ([], 5, 5),
    ],
)
def test_the_newest_half_of_what_the_champion_never_saw_judges(sequences, seen, until):
    assert learnt_until(np.array(sequences, dtype=np.int64), seen) == until


def test_entries_are_cut_at_a_sequence_number():
    finished = FinishedJobs("log", [3, 5, 9], ["a", "b", "c"])
    assert finished.until(5) == FinishedJobs("log", [3, 5], ["a", "b"])
    assert finished.until(4) == FinishedJobs("log", [3], ["a"])
    assert finished.until(0) == FinishedJobs("log", [], [])
