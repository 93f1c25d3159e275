"""What measuring a pair would tell of all other pairs."""

import numpy as np
import pytest

from benchmarks.next_orders import lowered, predictive_information
from pipelines.interference.pair_design import PairDesign, effect_information


def design(covariance, noise=0.1, weight=1.0):
    n = len(covariance)
    return PairDesign(
        np.array(covariance, dtype=np.float64),
        np.full(n, noise),
        np.broadcast_to(np.asarray(weight, dtype=np.float64), n),
        np.ones(n // 2, dtype=np.intp),
    )


@pytest.mark.parametrize("at", [0, 1, 2])
def test_what_a_measurement_would_lower_is_what_it_lowers(at):
    root = np.random.default_rng(0).normal(size=(6, 4))
    asked = design(root @ root.T)
    before, told = np.diag(asked.covariance).copy(), lowered(asked)[:, at]
    asked.measure(at)
    np.testing.assert_allclose(before - np.diag(asked.covariance), told)


def test_a_pair_that_slows_down_comes_before_one_of_which_less_is_known():
    unknown = [0.1, 0.2, 0.1, 0.2]
    found = design(np.diag(unknown), weight=[4.0, 1.0, 4.0, 1.0])
    assert found.best(predictive_information) == 0
    assert design(np.diag(unknown)).best(predictive_information) == 1
    assert found.best(effect_information) == 1


def test_a_pair_that_others_are_like_comes_before_one_of_which_less_is_known():
    unknown = np.diag([0.1, 0.1, 0.12] * 2)
    unknown[[0, 1], [1, 0]] = unknown[[3, 4], [4, 3]] = 0.08
    assert design(unknown).best(predictive_information) in (0, 1)
    assert design(unknown).best(effect_information) == 2


def test_a_measured_pair_does_not_come_again():
    found = design(np.diag([0.1, 0.2, 0.1, 0.2]), noise=0.5)
    found.measure(1)
    found.covariance[1, 1] = 9.0
    assert found.best(predictive_information) == 0


def test_what_is_measured_without_noise_tells_no_more_than_everything():
    assert np.isfinite(predictive_information(design(np.diag([0.1, 0.2]), noise=0.0))).all()
