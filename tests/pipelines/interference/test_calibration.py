"""Intervals of pairs by how new they are."""

import numpy as np
import pandas as pd
import pytest

from pipelines.conformal import residual_quantiles, tail_quantiles
from pipelines.interference.calibration import NEW_FAMILY_TAILS, _calibration
from pipelines.interference.fit import InterferenceData
from serving.inference.interference import FEW_MEASURED, NEW_FAMILY

N = 120


@pytest.fixture
def held_out():
    """Held-out answers of four families before and after one pair was measured, and their data."""
    random = np.random.default_rng(0)
    labels = pd.DataFrame({"gpu_model": "v100", "family": np.tile(list("abcd"), N // 4)})
    estimates = pd.DataFrame(
        {"value": 1.1, "slowdown": 1 + random.exponential(0.2, N), "in_domain": True, "fold": "0"}
    )
    after = estimates.assign(slowdown=1 + random.exponential(0.1, N))
    return {FEW_MEASURED: after, NEW_FAMILY: estimates}, InterferenceData(labels, pd.DataFrame(), 1)


def log_errors(frame):
    return (np.log(frame["slowdown"]) - np.log(frame["value"])).to_numpy()


def test_new_family_is_cut_less_below_than_above(held_out):
    frames, data = held_out
    found = _calibration(frames, data, "log")
    wanted = tail_quantiles(log_errors(frames[NEW_FAMILY]), *NEW_FAMILY_TAILS)
    assert found.groups[NEW_FAMILY] == pytest.approx(wanted)
    assert found.default == pytest.approx(wanted)
    assert sum(NEW_FAMILY_TAILS) == pytest.approx(1 - found.level)


def test_measured_job_of_a_new_family_has_even_tails(held_out):
    frames, data = held_out
    found = _calibration(frames, data, "log")
    wanted = residual_quantiles(log_errors(frames[FEW_MEASURED]))
    assert found.groups[FEW_MEASURED] == pytest.approx(wanted)
