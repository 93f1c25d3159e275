import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from data.prometheus.cleaning import Samples
from data.prometheus.moments import Weighted, mean_and_std, together, weighted


def samples(times, values):
    return Samples(np.array(times, np.float64), np.array(values, np.float64))


def test_only_what_lies_within_the_intervals_counts():
    found = weighted(samples([5, 15, 25, 35], [1, 2, 3, 4]), [(10, 20), (30, 40)], 0.0, 60.0)
    assert found.values.tolist() == [2, 4]
    assert found.seconds.tolist() == [5, 5]


def test_what_may_still_show_the_one_before_is_left_out():
    found = weighted(samples([5, 15, 25], [1, 2, 3]), [(0, 30)], 10.0, 60.0)
    assert (found.values.tolist(), found.seconds.tolist()) == ([2, 3], [5, 10])


def test_a_gap_is_not_filled():
    times, values = [10, 20, 30, 500], [0, 0, 0, 1]
    found = weighted(samples(times, values), [(0, 500)], 0.0, 15.0)
    assert found.covered_s == 45
    assert mean_and_std(found)[0] == pytest.approx(15 / 45)
    assert weighted(samples(times, values), [(0, 500)], 0.0, 1e9).covered_s == 50


def test_no_sample_gives_nothing():
    assert weighted(samples([], []), [(0, 10)], 0.0, 60.0).covered_s == 0
    assert weighted(samples([5], [1]), [], 0.0, 60.0).covered_s == 0


def test_one_sample_has_a_mean_but_no_spread():
    assert mean_and_std(Weighted(np.array([2.0]), np.array([0.5]))) == (0.5, None)


def test_cards_of_a_gang_count_together():
    cards = [
        Weighted(np.array([10.0]), np.array([0.0])),
        Weighted(np.array([10.0]), np.array([1.0])),
    ]
    assert mean_and_std(together(cards)) == (0.5, 0.5)


@given(
    st.lists(st.floats(0, 1), min_size=2, max_size=20),
    st.floats(0.1, 100),
    st.floats(1, 50),
)
def test_moments_lie_within_the_samples_and_time_is_never_counted_twice(values, period, delay):
    times = period * np.arange(1, len(values) + 1)
    finish = float(times[-1])
    found = weighted(samples(times, values), [(0.0, finish)], delay, 1e9)
    assert found.covered_s <= max(0.0, finish - delay) + 1e-6
    if len(found.values):
        mean, std = mean_and_std(found)
        assert min(values) - 1e-9 <= mean <= max(values) + 1e-9
        assert std is None or 0 <= std <= 0.5 + 1e-9
