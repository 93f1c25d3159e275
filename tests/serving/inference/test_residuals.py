import numpy as np
import pandas as pd
import pytest

from serving.inference.residuals import (
    DEFAULT,
    LEVEL,
    Residuals,
    residual_table,
    residuals_from_table,
    table_calibration,
)

RNG = np.random.default_rng(0)
drawn = RNG.normal(0, 1, 4000)
GROUPS = pd.Series(np.where(np.arange(4000) < 3900, "many", "few"))


def normal() -> Residuals:
    table = residual_table(drawn, GROUPS)
    return residuals_from_table(table, table_calibration(table, 0.9, 1.5))


def ask(residuals: Residuals, elapsed_log: float, group: str = "many") -> pd.Series:
    groups, ones = pd.Series([group]), np.ones(1)
    return residuals.conditional(np.zeros(1), groups, np.array([elapsed_log]), ones).iloc[0]


def test_only_groups_that_are_large_enough_get_quantiles_of_their_own():
    assert list(residual_table(drawn, GROUPS).columns) == [LEVEL, DEFAULT, "many"]


def test_before_the_start_the_value_is_the_prediction_and_the_interval_holds_its_share():
    answer = ask(normal(), -np.inf)
    assert answer["value"] == 0
    inside = (drawn >= answer["lower"]) & (drawn <= answer["upper"])
    assert inside.mean() == pytest.approx(0.9, abs=0.01)


def test_unknown_group_is_answered_as_default():
    assert ask(normal(), -np.inf, "unheard of").equals(ask(normal(), -np.inf, "few"))


@pytest.mark.parametrize("elapsed_log", [-1.0, 0.0, 1.0, 2.5])
def test_given_survival_the_interval_still_holds_its_share(elapsed_log):
    answer = ask(normal(), elapsed_log)
    alive = drawn[drawn > elapsed_log]
    inside = (alive >= answer["lower"]) & (alive <= answer["upper"])
    assert inside.mean() == pytest.approx(0.9, abs=0.06)
    assert elapsed_log <= answer["lower"] <= answer["value"] <= answer["upper"]


def test_the_longer_a_job_runs_the_longer_it_is_expected_to():
    values = [ask(normal(), elapsed)["value"] for elapsed in np.linspace(-5, 9, 50)]
    assert values == sorted(values)


def test_a_job_that_outlived_all_like_it_may_run_as_long_again():
    answer = ask(normal(), 20.0)
    assert answer["lower"] == 20
    assert answer["value"] > 20
    assert answer["upper"] == pytest.approx(20 + np.log(2))


def test_widening_widens_around_the_prediction():
    groups = pd.Series(["many"])
    wide = normal().conditional(np.zeros(1), groups, np.array([-np.inf]), np.array([2.0])).iloc[0]
    plain = ask(normal(), -np.inf)
    assert wide["upper"] == pytest.approx(2 * plain["upper"])
    assert wide["value"] == plain["value"]


def test_few_rows_give_wide_bounds():
    table = residual_table(np.full(5, 0.1), pd.Series(["g"] * 5))
    low, high = table_calibration(table, 0.9, 1.5).default
    assert low < -1
    assert high > 1
