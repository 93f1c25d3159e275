import pytest

from data.domain import FinishedJob, Outcome, Segment
from data.placement import stretches


def cut(*segments, start=0.0, finish=10.0):
    job = FinishedJob("1", 1, "u", "q", "ncf", 1, start, start, finish, Outcome.OK, segments)
    return [(s.start_time, s.finish_time, s.neighbour_keys) for s in stretches(job)]


def segment(start, finish, *neighbours, card="g0"):
    return Segment(start, finish, card, "A100", neighbours)


def test_a_run_is_cut_where_its_neighbours_change():
    assert cut(segment(0, 4), segment(4, 10, "b", "a")) == [(0, 4, ()), (4, 10, ("a", "b"))]


def test_a_gang_is_alone_only_while_all_its_cards_are():
    found = cut(segment(0, 10, card="g0"), segment(0, 6, "a", card="g1"), segment(6, 10, card="g1"))
    assert found == [(0, 6, ("a",)), (6, 10, ())]


def test_time_that_no_segment_records_is_in_no_stretch():
    assert cut(segment(1, 3), segment(5, 10)) == [(1, 3, ()), (5, 10, ())]
    assert cut() == []


def test_segments_are_cut_to_the_run():
    assert cut(segment(-0.5, 10.5), start=2.0, finish=9.0) == [(2.0, 9.0, ())]


@pytest.mark.parametrize(
    ("met", "who"),
    [([("a",), ("a",)], ("a",)), ([("a", "a"), ()], ("a", "a")), ([("b",), ("a",)], ("a", "b"))],
)
def test_the_same_key_on_two_cards_is_one_gang_but_twice_on_one_card_two_jobs(met, who):
    segments = [segment(0, 10, *keys, card=f"g{n}") for n, keys in enumerate(met)]
    assert cut(*segments) == [(0, 10, who)]
