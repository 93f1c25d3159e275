import numpy as np
import pandas as pd
import pytest

from data.domain import PROFILE_COLUMNS
from data.errors import UnknownProfileError
from data.sample_data import sample_runs
from features.pairs import pair_features
from features.profiles import profiles

PROFILES = pd.DataFrame(
    {
        "job_key": ["busy", "light", "busy"],
        "gpu_model": ["v100", "v100", "a100"],
        "sm_active_mean": [0.9, 0.3, 0.5],
        "dram_active_mean": [0.2, np.nan, 0.1],
        "gpu_mem_mib_mean": [3000.0, 1000.0, 3000.0],
    }
)


def features(job, neighbour, gpu="v100"):
    pairs = pd.DataFrame({"job_key": [job], "neighbour_key": [neighbour], "gpu_model": [gpu]})
    return pair_features(PROFILES, pairs).iloc[0]


def test_slowed_job_stands_first():
    row = features("light", "busy")
    assert (row["sm_active_mean_job"], row["sm_active_mean_neighbour"]) == (0.3, 0.9)


def test_physics_of_the_pair():
    row = features("busy", "light")
    assert row["sm_active_sum"] == pytest.approx(1.2)
    assert row["sm_active_overflow"] == pytest.approx(0.2)
    assert row["sm_active_product"] == pytest.approx(0.27)
    assert row["sm_active_share"] == pytest.approx(0.75)
    assert row["gpu_mem_mib_share"] == pytest.approx(0.75)


def test_missing_signal_stays_missing_and_is_never_zero():
    row = features("busy", "light")
    assert row["dram_active_mean_job"] == 0.2
    names = [f"dram_active_{name}" for name in ("sum", "overflow", "product", "share")]
    assert row[["dram_active_mean_neighbour", *names]].isna().all()
    assert row.filter(like="pcie").isna().all()


def test_pair_below_capacity_overflows_nothing():
    assert features("light", "light")["sm_active_overflow"] == 0.0


def test_profile_is_that_of_the_gpu_model():
    assert features("busy", "busy", "a100")["sm_active_mean_job"] == 0.5


def test_two_idle_jobs_share_by_halves():
    idle = PROFILES.assign(sm_active_mean=0.0)
    pairs = pd.DataFrame({"job_key": ["busy"], "neighbour_key": ["light"], "gpu_model": "v100"})
    assert pair_features(idle, pairs)["sm_active_share"].tolist() == [0.5]


@pytest.mark.parametrize("value", [0.0, 0.5, 1.0])
def test_telemetry_of_the_pair_itself_changes_no_feature(value):
    runs = sample_runs()
    colocated = runs["neighbour_key"].notna()
    pairs = runs.loc[colocated, ["job_key", "neighbour_key", "gpu_model"]]
    signals = [name for name in PROFILE_COLUMNS if name in runs]
    other = runs.copy()
    other.loc[colocated, [*signals, "jct_s"]] = value
    assert (other.loc[colocated, signals] == value).all(axis=None)
    pd.testing.assert_frame_equal(
        pair_features(profiles(other), pairs), pair_features(profiles(runs), pairs)
    )


def test_job_without_profile_on_that_gpu_model_is_refused():
    with pytest.raises(UnknownProfileError, match="no exclusive profile of 'light'"):
        features("busy", "light", "a100")
