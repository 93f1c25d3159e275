"""Ways to tell how far a job of a new family may be off."""

import numpy as np
import pandas as pd
import pytest

from benchmarks.interval_rules import OWN_UNITS, RULES, SERVED

FAMILIES = np.repeat(list("abcde"), 60)


@pytest.fixture
def held():
    random = np.random.default_rng(0)
    n = len(FAMILIES)
    shifts = pd.Series(FAMILIES).map(dict(zip("abcde", random.normal(size=5), strict=True)))
    return pd.DataFrame(
        {
            "residual": random.normal(size=n) + shifts,
            "family": FAMILIES,
            "log_value": random.uniform(0, 1, n),
            "effect_sd": random.uniform(0.1, 1, n),
            "tree_sd": random.uniform(0.1, 1, n),
            "neighbour_util": random.uniform(0, 1, n),
        }
    )


@pytest.mark.parametrize("name", RULES)
def test_each_rule_gives_every_answer_an_interval_that_holds_most_errors(name, held):
    ends = RULES[name](held, held.drop(columns="residual"))
    assert ends.shape == (len(held), 2)
    assert held["residual"].between(ends[:, 0], ends[:, 1]).mean() > 0.85


@pytest.mark.parametrize("name", RULES)
def test_only_rules_that_cost_nothing_give_all_answers_the_same(name, held):
    ends = RULES[name](held, held.drop(columns="residual"))
    assert (len(np.unique(ends, axis=0)) == 1) == (name in SERVED)
    assert (name in OWN_UNITS) != (name in SERVED)
