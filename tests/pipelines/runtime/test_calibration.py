import numpy as np
import pandas as pd
import pytest

from pipelines.runtime.calibration import LARGEST_DRIFT, HeldOut, drift
from serving.inference.residuals import LEVEL


def held_out(residuals, batch=None, reach=0.0):
    """Each residual twice, at start and at submission."""
    residuals = np.tile(residuals, 2)
    n = len(residuals)
    return HeldOut(
        residuals=np.asarray(residuals, np.float64),
        groups=pd.Series(["none"] * n, dtype="str"),
        user=np.zeros(n),
        batch=np.tile(np.arange(n // 2) if batch is None else batch, 2).astype(np.uint64),
        low=-np.tile(reach, n // np.size(reach)),
        high=np.tile(reach, n // np.size(reach)),
    )


NORMAL = np.random.default_rng(0).normal(size=2000)


def test_what_has_not_drifted_keeps_its_width():
    assert drift(held_out(NORMAL).table(), held_out(NORMAL), 0.9) == pytest.approx(1, abs=0.03)


@pytest.mark.parametrize(("scale", "wanted"), [(1.25, 1.25), (9.0, LARGEST_DRIFT)])
def test_wider_residuals_widen_the_interval_within_bounds(scale, wanted):
    found = drift(held_out(NORMAL).table(), held_out(NORMAL * scale), 0.9)
    assert found == pytest.approx(wanted, abs=0.04)


def test_what_the_users_range_holds_is_no_drift():
    table = held_out(NORMAL).table()
    alone, ranged = (held_out(NORMAL * 1.4, reach=reach) for reach in (0.0, 50.0))
    assert drift(table, alone, 0.9) > 1.3
    assert drift(table, ranged, 0.9) == 1


def test_one_large_batch_does_not_decide_how_wide_intervals_are():
    batch = np.full(2000, 6.0)
    residuals = np.concatenate([NORMAL, batch])
    batches = np.minimum(np.arange(4000), 2000)
    tables = [held_out(residuals, batch).table() for batch in (None, batches)]
    upper = [np.interp(0.9, table[LEVEL], table["none"]) for table in tables]
    assert upper[0] == pytest.approx(6)
    assert upper[1] < 2
