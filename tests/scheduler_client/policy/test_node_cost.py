import pytest

from scheduler_client.policy.node_cost import crowding, gpu_util_cost, node_cost

CALM = {"gpu_util_mean": 0.25, "gpu_util_std": 0.0, "sm_active_mean": 0.25}
BUSY = {"gpu_util_mean": 0.75, "gpu_util_std": 0.25}


def test_only_signals_that_all_have_are_compared():
    assert gpu_util_cost([CALM], BUSY) == pytest.approx(1.0 + 0.25**2)
    assert gpu_util_cost([CALM], {"sm_active_mean": 0.25}) == pytest.approx(0.5)


def test_without_a_common_signal_there_is_no_cost():
    assert gpu_util_cost([{"sm_active_mean": 0.5}], {"gpu_util_mean": 0.5}) is None
    assert crowding([{"sm_active_mean": 0.5}], {"gpu_util_mean": 0.5}) is None


def test_cost_grows_faster_above_capacity():
    below = gpu_util_cost([CALM], CALM)
    above = gpu_util_cost([BUSY], BUSY)
    assert above - 1.0 == pytest.approx(2 * (1.5 - 1.0))
    assert below == pytest.approx(0.5)


def test_alone_a_job_is_not_slowed_down():
    assert crowding([], BUSY).value == 1.0


def test_upper_bound_adds_a_standard_deviation():
    estimate = crowding([BUSY], BUSY)
    assert estimate.value == pytest.approx(1.5)
    assert estimate.upper == pytest.approx(1.5 + 2**0.5 * 0.25)


def test_memory_is_half_of_the_cost():
    assert node_cost(1.0, 2048, 2048, 4096) == pytest.approx(1.0)
    assert node_cost(0.0, 1024, 1024, 4096) == pytest.approx(0.25)
