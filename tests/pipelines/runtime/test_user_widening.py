"""Whose intervals are widened."""

import numpy as np
import pandas as pd
import pytest

from pipelines.runtime.calibration import HeldOut
from pipelines.runtime.user_widening import widening_table

STEADY, WILD = 1.0, 2.0


def held_out(residuals, user, batch=None):
    """Each job twice, at start and at submission."""
    n = len(residuals)
    batch = np.arange(n) if batch is None else batch
    return HeldOut(
        residuals=np.tile(np.asarray(residuals, np.float64), 2),
        groups=pd.Series(["none"] * (2 * n), dtype="str"),
        user=np.tile(np.asarray(user, np.float64), 2),
        batch=np.tile(np.asarray(batch), 2).astype(np.uint64),
        low=np.zeros(2 * n),
        high=np.zeros(2 * n),
    )


def factors(held):
    table = widening_table(held.table(), held, 0.9)
    return dict(zip(table["user_code"], table["factor"], strict=True))


@pytest.fixture
def residuals():
    """Ninety of a hundred jobs err little; those of the wild user err five times as much."""
    errors = np.random.default_rng(0).normal(size=1000)
    user = np.where(np.arange(1000) % 10 == 0, WILD, STEADY)
    return np.where(user == WILD, 5 * errors, errors), user


def test_only_the_user_whose_jobs_miss_their_intervals_gets_wider_ones(residuals):
    errors, user = residuals
    found = factors(held_out(errors, user))
    assert found[WILD] > 1.3
    assert found.get(STEADY, 1.0) < 1.2


def test_what_a_user_missed_long_ago_is_forgotten(residuals):
    errors, user = residuals
    calm = np.concatenate([errors, np.zeros(500)])
    assert WILD not in factors(held_out(calm, np.concatenate([user, np.full(500, WILD)])))


def test_one_missed_batch_moves_a_user_less_than_as_many_single_jobs(residuals):
    errors, user = residuals
    errors, user = np.concatenate([errors, np.full(5, 9.0)]), np.concatenate([user, np.full(5, 3)])
    single, alike = np.arange(1005), np.minimum(np.arange(1005), 1000)
    assert (
        1 < factors(held_out(errors, user, alike))[3] < factors(held_out(errors, user, single))[3]
    )


def test_factors_are_bounded(residuals):
    table = held_out(*residuals).table()
    far = held_out(np.full(90, 50.0), np.full(90, 3))
    assert widening_table(table, far, 0.9)["factor"].tolist() == pytest.approx([4])
