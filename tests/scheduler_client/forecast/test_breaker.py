import pytest

from scheduler_client.forecast.breaker import BreakerRules, Circuit, CircuitBreaker


@pytest.fixture
def now():
    return [0.0]


@pytest.fixture
def breaker(now):
    rules = BreakerRules(failures_to_open=2, rest_s=1.0, longest_rest_s=4.0)
    return CircuitBreaker(rules, lambda: now[0])


def test_one_failure_keeps_it_closed(breaker):
    breaker.failed()
    assert breaker.circuit is Circuit.CLOSED
    assert breaker.allows()


def test_failures_in_a_row_open_it(breaker):
    breaker.failed()
    breaker.failed()
    assert breaker.circuit is Circuit.OPEN
    assert not breaker.allows()
    assert breaker.remaining_s == 1.0


def test_a_success_in_between_starts_the_count_again(breaker):
    breaker.failed()
    breaker.succeeded()
    breaker.failed()
    assert breaker.circuit is Circuit.CLOSED


def test_only_one_probe_goes_after_the_rest(breaker, now):
    breaker.failed()
    breaker.failed()
    now[0] = 1.0
    assert breaker.allows()
    assert breaker.circuit is Circuit.HALF_OPEN
    assert not breaker.allows()


def test_failed_probes_double_the_rest_up_to_the_longest(breaker, now):
    breaker.failed()
    breaker.failed()
    rests = []
    for _ in range(4):
        now[0] += breaker.remaining_s
        assert breaker.allows()
        breaker.failed()
        rests.append(breaker.remaining_s)
    assert rests == [2.0, 4.0, 4.0, 4.0]


def test_a_good_probe_closes_it_as_new(breaker, now):
    breaker.failed()
    breaker.failed()
    now[0] = 1.0
    assert breaker.allows()
    breaker.succeeded()
    assert breaker.circuit is Circuit.CLOSED
    breaker.failed()
    assert breaker.allows()


def test_an_endpoint_that_says_when_to_come_back_is_left_alone_until_then(breaker, now):
    breaker.failed(retry_after_s=3.0)
    assert breaker.circuit is Circuit.OPEN
    now[0] = 2.9
    assert not breaker.allows()
    now[0] = 3.0
    assert breaker.allows()


def test_no_endpoint_is_left_alone_longer_than_the_longest_rest(breaker):
    breaker.failed(retry_after_s=1e9)
    assert breaker.remaining_s == 4.0
