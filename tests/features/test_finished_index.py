import numpy as np
import pytest

from features.finished_index import NO_JOB, FinishedIndex

KEYS = np.array([7, 9, 7, 7, 0], dtype=np.uint64)
FINISH = np.array([30.0, 10.0, 10.0, 20.0, 5.0])
IDENTITIES = np.array([1, 2, 3, 4, 5], dtype=np.uint64)


def filled() -> FinishedIndex:
    index = FinishedIndex()
    index.add(KEYS, FINISH, IDENTITIES, np.arange(5))
    return index


def test_newest_job_of_a_key_comes_first():
    positions, counts = filled().window(np.array([7], np.uint64), np.array([99.0]), 2)
    assert positions.tolist() == [[0, 3]]
    assert counts.tolist() == [3]


@pytest.mark.parametrize(("as_of", "seen"), [(10.0, []), (10.25, [2]), (20.25, [3, 2])])
def test_only_jobs_that_finished_before_are_seen(as_of, seen):
    positions, counts = filled().window(np.array([7], np.uint64), np.array([as_of]), 3)
    assert positions[0].tolist() == seen + [NO_JOB] * (3 - len(seen))
    assert counts.tolist() == [len(seen)]


def test_unknown_key_and_missing_key_have_no_jobs():
    positions, counts = filled().window(np.array([8, 0], np.uint64), np.array([99.0, 99.0]), 1)
    assert positions.tolist() == [[NO_JOB], [NO_JOB]]
    assert counts.tolist() == [0, 0]


def test_empty_index_answers_nothing_seen():
    positions, counts = FinishedIndex().window(KEYS, FINISH, 2)
    assert (positions == NO_JOB).all()
    assert (counts == 0).all()


@pytest.mark.parametrize("seed", range(5))
def test_order_is_the_same_in_whichever_chunks_jobs_were_added(seed):
    rng = np.random.default_rng(seed)
    keys = rng.integers(1, 4, 200).astype(np.uint64)
    finish = rng.integers(0, 20, 200).astype(np.float64)  # many ties
    identities = rng.permutation(200).astype(np.uint64)
    whole, parts = FinishedIndex(), FinishedIndex()
    whole.add(keys, finish, identities, np.arange(200))
    for chunk in np.array_split(rng.permutation(200), 37):
        parts.add(keys[chunk], finish[chunk], identities[chunk], chunk)
    asked = np.array([1, 2, 3], np.uint64), np.array([20.0, 20.0, 11.0])
    np.testing.assert_array_equal(whole.window(*asked, 80)[0], parts.window(*asked, 80)[0])
