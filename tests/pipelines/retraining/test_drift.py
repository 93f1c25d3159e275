import numpy as np
import pytest

from pipelines.retraining.drift import first_alarm, ranks

RANDOM = np.random.default_rng(11)


def test_ranks_are_uniform_whatever_the_distribution_and_however_many_ties():
    for values in (RANDOM.pareto(0.5, 4000), RANDOM.integers(0, 2, 4000)):
        found = np.sort(ranks(values))
        assert np.abs(found - np.linspace(0, 1, 4000)).max() < 0.04


def test_the_same_stream_gives_the_same_ranks():
    values = RANDOM.integers(0, 3, 50)
    assert (ranks(values, 3) == ranks(values, 3)).all()


def test_false_alarms_are_rarer_than_the_threshold_says():
    threshold, length, streams = 2000.0, 400, 300
    alarms = sum(
        first_alarm(RANDOM.lognormal(0, 2, length), threshold, seed) is not None
        for seed in range(streams)
    )
    # A mean time of at least `threshold` observations: at most one a stream in threshold/length.
    assert alarms / streams <= 1.3 * length / threshold


@pytest.mark.parametrize(("shift", "within"), [(4.0, 12), (1.0, 90)])
def test_a_larger_shift_is_found_sooner(shift, within):
    delays = []
    for seed in range(20):
        values = np.random.default_rng(seed).normal(0, 1, 400)
        values[200:] += shift
        found = first_alarm(values, 10_000.0)
        assert found is not None
        delays.append(found.at - 200)
    assert 0 <= np.median(delays) <= within


def test_misses_that_become_frequent_are_found_though_all_are_ties():
    missed = np.append(RANDOM.random(300) < 0.1, RANDOM.random(200) < 0.5)
    found = first_alarm(missed, 10_000.0)
    assert found is not None
    assert 300 <= found.at < 360
    assert abs(found.since - 300) < 30


def test_a_kind_that_was_never_seen_is_found_though_most_observations_are_as_before():
    unseen = np.append(np.zeros(600), np.random.default_rng(8).random(200) < 0.3)
    found = first_alarm(unseen, 100_000.0)
    assert found is not None
    assert 600 <= found.at < 660


def test_an_improvement_is_no_alarm():
    assert first_alarm(np.append(RANDOM.normal(3, 1, 300), np.zeros(200)), 1000.0) is None


def test_an_empty_stream_has_no_alarm():
    assert first_alarm([], 10.0) is None
