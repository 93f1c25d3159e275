"""MISO's layout."""

import pandas as pd
import pytest

from data.errors import TableError
from data.importers import miso


@pytest.fixture
def folder(fixtures, tmp_path):
    (tmp_path / miso.PROFILE_FILE).write_bytes((fixtures / "miso" / miso.PROFILE_FILE).read_bytes())
    steps = pd.DataFrame(
        {
            "mig_slice": "1g.5gb",
            "model": "wide",
            "batch_size": 2,
            "list_key": "0",
            "iteration": [0, 1, 2, 3],
            "seconds": [30.0, 0.5, 0.4, 0.6],
        }
    )
    steps.to_parquet(tmp_path / miso.STEP_FILE)
    return tmp_path


def test_runs_on_the_whole_card_have_signals_and_no_speed(folder):
    runs = miso.read(folder)["profiling_runs"].query("gpu_model == 'a100-40gb'")
    assert runs["job_key"].tolist() == ["wide/b2", "wide/b4"]
    assert runs["gpu_util_mean"].tolist() == [0.4, 0.7]
    assert runs["steps_per_s"].isna().all()


def test_warm_up_step_does_not_count(folder):
    run = miso.read(folder)["profiling_runs"].iloc[-1]
    assert run["gpu_model"] == "a100-40gb-1g.5gb"
    assert run["steps_per_s"] == pytest.approx(2.0)


def test_profiles_alone_can_be_read(fixtures):
    assert len(miso.read(fixtures / "miso")["profiling_runs"]) == 2


def test_repeated_configuration_is_refused(with_value):
    folder = with_value("miso", miso.PROFILE_FILE, "batch_size", 2, 2)
    with pytest.raises(TableError, match="row 2: found model = wide, batch_size = 2 a second time"):
        miso.read(folder)


def test_public_files_give_both_kinds_of_run(public_data):
    runs = miso.read(public_data / "miso")["profiling_runs"]
    assert (runs["gpu_model"] == "a100-40gb").sum() == 33
    assert runs["steps_per_s"].notna().sum() == 145
