from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_client.local.segments import Stay, segments_of

MINE = Stay("1", "bert", "gpu0", 10.0)
MOMENTS = st.integers(0, 40).map(float)


def spans(finish: float, others: list[Stay]) -> list[tuple]:
    found = segments_of(MINE, finish, others, "A100")
    return [(s.start_time, s.finish_time, s.neighbour_keys) for s in found]


def test_alone_it_is_one_segment():
    assert spans(30.0, []) == [(10.0, 30.0, ())]


def test_a_segment_ends_when_a_neighbour_comes_or_leaves():
    others = [Stay("2", "gan", "gpu0", 5.0, 15.0), Stay("3", "dlrm", "gpu0", 12.0)]
    assert spans(30.0, others) == [
        (10.0, 12.0, ("gan",)),
        (12.0, 15.0, ("dlrm", "gan")),
        (15.0, 30.0, ("dlrm",)),
    ]


def test_one_of_the_same_kind_in_its_place_is_another_neighbour():
    others = [Stay("2", "gan", "gpu0", 5.0, 20.0), Stay("3", "gan", "gpu0", 20.0)]
    assert spans(30.0, others) == [(10.0, 20.0, ("gan",)), (20.0, 30.0, ("gan",))]


def test_who_was_there_before_or_after_does_not_count():
    others = [Stay("2", "gan", "gpu0", 0.0, 10.0), Stay("3", "gan", "gpu0", 30.0)]
    assert spans(30.0, others) == [(10.0, 30.0, ())]


def test_a_run_of_no_length_has_one_segment():
    assert spans(10.0, [Stay("2", "gan", "gpu0", 0.0)]) == [(10.0, 10.0, ("gan",))]


@given(
    finish=st.integers(11, 40).map(float),
    moments=st.lists(st.tuples(MOMENTS, MOMENTS), max_size=6),
)
def test_segments_cover_the_run_without_gaps_and_name_who_was_there(finish, moments):
    others = [Stay(str(n), f"k{n}", "gpu0", *sorted(pair)) for n, pair in enumerate(moments, 2)]
    segments = segments_of(MINE, finish, others, "A100")
    assert segments[0].start_time == MINE.start_time
    assert segments[-1].finish_time == finish
    assert all(a.finish_time == b.start_time for a, b in pairwise(segments))
    shared = sum((s.finish_time - s.start_time) * len(s.neighbour_keys) for s in segments)
    overlap = sum(max(0.0, min(finish, o.finish_time) - max(10.0, o.start_time)) for o in others)
    assert shared == pytest.approx(overlap)
