import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_client.policy.usage import Usage

KEY = ("q", "ada")


@given(st.lists(st.floats(0.1, 100), min_size=1, max_size=10))
def test_usage_does_not_depend_on_how_often_it_is_charged(steps):
    usage, now = Usage(0.0), 0.0
    for step in steps:
        now += step
        usage = usage.advanced(now, {KEY: 2.0}, 60.0)
    once = Usage(0.0).advanced(now, {KEY: 2.0}, 60.0)
    assert usage.gpu_time_s[KEY] == pytest.approx(once.gpu_time_s[KEY])


def test_a_clock_that_was_set_back_charges_nothing():
    usage = Usage(100.0, {KEY: 10.0}).advanced(50.0, {KEY: 1.0}, 60.0)
    assert usage.gpu_time_s == {KEY: 10.0}


def test_usage_that_has_faded_is_forgotten():
    assert Usage(0.0, {KEY: 10.0}).advanced(1e6, {}, 60.0).gpu_time_s == {}
