"""Rules for a family beside the only one that was learnt."""

import numpy as np
import pytest

from benchmarks.quality_strangers import RULES, SERVED, Asked, Learnt, by_known, by_range, wider

LEARNT = Learnt(
    known=np.linspace(-1, 1, 99),
    trees=np.full(99, 2.0),
    fifths=np.linspace(-2, 2, 99),
    thirds=np.linspace(-3, 3, 99),
    ends=(-0.5, 4.0),
)
ASKED = Asked(value=np.zeros(2), trees=np.array([1.0, 2.0]), widen=np.array([1.0, 1.5]))


@pytest.mark.parametrize(
    ("name", "upper"),
    [
        ("8 times the errors of configurations", [7.35, 11.02]),
        ("8 times the errors of configurations in what the trees differ by", [3.67, 11.02]),
        ("2 times the errors of thirds apart", [5.51, 5.51]),
    ],
)
def test_rule_counts_in_its_own_errors(name, upper):
    assert RULES[name](LEARNT, ASKED)[1] == pytest.approx(upper, abs=0.01)


def test_wider_rule_has_the_outer_ends():
    lower, upper = wider(by_range, by_known(1.0))(LEARNT, ASKED)
    assert (lower < -0.5).all()
    assert (upper == 4.0).all()


def test_what_is_served_is_part_of_what_is_compared():
    assert set(SERVED) < set(RULES)
