import numpy as np
import pytest

from features.anchor import nested_pull
from features.kriging import Kriged


def level(pull: float, weight: float) -> Kriged:
    return Kriged(*(np.array([value]) for value in (pull, weight, weight, 1.0)))


def test_a_level_that_knows_all_silences_coarser_ones():
    assert nested_pull([level(2.0, 1.0), level(-9.0, 0.5)])[0] == pytest.approx(2.0)


def test_a_level_that_knows_nothing_leaves_the_coarser_one_as_it_is():
    assert nested_pull([level(0.0, 0.0), level(-3.0, 0.5)])[0] == pytest.approx(-3.0)
