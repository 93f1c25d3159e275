import pytest

from data.domain import FinishedJob, Outcome, Segment
from features.exposure import exposure


def job(*segments, finish=10.0):
    return FinishedJob("1", 1, "u", "q", "ncf", 1, 0.0, 0.0, finish, Outcome.OK, segments)


def segment(start, finish, *neighbours, card="g0", model="A100"):
    return Segment(start, finish, card, model, neighbours)


def test_time_is_divided_by_who_was_there():
    found = exposure(
        job(segment(0, 2), segment(2, 5, "a"), segment(5, 6, "a", "b"), segment(6, 10, "b"))
    )
    assert found.exclusive_s == 2
    assert found.beside_s == {"a": 3, "b": 4}
    assert found.crowded_s == {"a": 1, "b": 1}
    assert (found.recorded_s, found.neighbours) == (9, {"a", "b"})


def test_two_jobs_of_the_same_key_on_one_card_are_two_neighbours():
    assert exposure(job(segment(0, 10, "a", "a"))).crowded_s == {"a": 10}


def test_a_gang_is_exclusive_only_while_all_its_cards_are():
    found = exposure(
        job(segment(0, 10, card="g0"), segment(0, 6, "a", card="g1"), segment(6, 10, card="g1"))
    )
    assert (found.exclusive_s, found.beside_s) == (4, {"a": 6})
    both = job(segment(0, 10, "a", card="g0"), segment(0, 10, "a", card="g1"))
    assert exposure(both).beside_s == {"a": 10}
    differing = job(segment(0, 10, "a", card="g0"), segment(0, 10, "b", card="g1"))
    assert exposure(differing).crowded_s == {"a": 10, "b": 10}


def test_what_no_segment_records_is_in_no_part():
    found = exposure(job(segment(0, 3), segment(7, 10, "a")))
    assert (found.exclusive_s, found.beside_s, found.runtime_s) == (3, {"a": 3}, 10)
    nothing = exposure(job())
    assert (nothing.exclusive_s, nothing.neighbours, nothing.gpu_model) == (0, set(), "unknown")


def test_segments_beyond_the_run_are_cut_to_it():
    found = exposure(job(segment(-0.5, 4), segment(4, 10.5, "a")))
    assert (found.exclusive_s, found.beside_s) == (4, {"a": 6})


def test_cards_of_several_models_are_named_together():
    gang = job(segment(0, 10, card="g0", model="V100"), segment(0, 10, card="g1"))
    assert exposure(gang).gpu_model == "A100+V100"


@pytest.mark.parametrize("finish", [0.0, 10.0])
def test_an_empty_segment_changes_nothing(finish):
    found = exposure(job(segment(0, 0, "a"), segment(0, finish), finish=finish))
    assert (found.exclusive_s, found.beside_s) == (finish, {})
