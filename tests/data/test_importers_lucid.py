"""Lucid's layout."""

import numpy as np
import pandas as pd
import pytest

from data.domain import SIGNAL_COLUMNS
from data.errors import TableError
from data.importers import lucid

WIDE, DEEP, AGENT = "Wide/Shapes/b16/fp32", "Deep/Words/b8/fp32", "Agent/Maze/b64/fp32"


def runs(path):
    return lucid.read(path)["profiling_runs"]


def test_each_configuration_gives_one_exclusive_run(fixtures):
    alone = runs(fixtures / "lucid").query("is_exclusive")
    assert alone["job_key"].tolist() == [WIDE, "Wide/Shapes/b16/amp", DEEP, AGENT]
    assert alone["neighbour_key"].isna().all()
    assert alone["steps_per_s"].tolist() == [100.0, 150.0, 20.0, 5.0]


def test_percentages_become_ratios(fixtures):
    first = runs(fixtures / "lucid").iloc[0]
    assert first["gpu_util_mean"] == pytest.approx(0.40)
    assert first["dram_active_mean"] == pytest.approx(0.125)
    assert first["gpu_mem_mib_mean"] == 2100.0


def test_each_pair_gives_one_run_a_side_that_name_each_other(fixtures):
    together = runs(fixtures / "lucid").query("not is_exclusive").set_index("run_id")
    first, second = together.loc["lucid-pair-1-1"], together.loc["lucid-pair-1-2"]
    assert (first["job_key"], first["neighbour_key"]) == (WIDE, DEEP)
    assert (second["job_key"], second["neighbour_key"]) == (DEEP, WIDE)
    assert first["neighbour_run_id"] == "lucid-pair-1-2"
    assert second["neighbour_run_id"] == "lucid-pair-1-1"


def test_shared_speed_is_the_ratio_of_the_exclusive_speed(fixtures):
    together = runs(fixtures / "lucid").set_index("run_id")["steps_per_s"]
    assert together["lucid-pair-1-1"] == pytest.approx(80.0)
    assert together["lucid-pair-1-2"] == pytest.approx(10.0)


def test_no_signal_of_a_pair_row_reaches_a_run(fixtures):
    together = runs(fixtures / "lucid").query("not is_exclusive")
    assert together[[*SIGNAL_COLUMNS, "gpu_mem_peak_mib"]].isna().all(axis=None)


def test_memory_of_the_shared_card_is_kept_as_evidence(fixtures):
    found = runs(fixtures / "lucid")
    assert found.query("is_exclusive")["card_mem_mib"].isna().all()
    assert found.query("not is_exclusive")["card_mem_mib"].head(3).tolist() == [11100, 3800, 3600]


def test_memory_of_the_shared_card_may_be_absent(fixtures, tmp_path):
    for name in ("single_data.csv", "colocate_info.csv"):
        frame = pd.read_csv(fixtures / "lucid" / name, index_col=None)
        frame.drop(columns="gmem" if name.startswith("colocate") else []).to_csv(
            tmp_path / name, index=False
        )
    assert runs(tmp_path)["card_mem_mib"].isna().all()


def test_sharing_classes_come_along(fixtures):
    shares = lucid.read(fixtures / "lucid")["share_labels"]
    assert shares["share_label"].tolist() == [0.0, 0.0, 2.0, 0.0]


@pytest.mark.parametrize(
    ("file", "column", "row", "value", "message"),
    [
        ("single_data.csv", "gpu_util", 2, 140.0, r"row 2: found gpu_util = 140.0, wanted .*100"),
        ("single_data.csv", "speed", 3, np.nan, "row 3: found speed = nan, wanted a number"),
        ("single_data.csv", "speed", 1, 0, "row 1: found speed = 0.0, wanted a number above 0"),
        ("single_data.csv", "speed", 1, "fast", "row 1: found speed = fast, wanted a number"),
        ("single_data.csv", "model", 1, np.nan, "row 1: found model = nan, wanted a text"),
        ("single_data.csv", "amp", 1, 3, "row 1: found amp = 3, wanted 0 or 1"),
        ("single_data.csv", "amp", 2, 0, "row 2: found model = Wide, .* a second time"),
        ("single_data.csv", "batchsize", 1, 1.5, "row 1: found batchsize = 1.5, wanted a whole"),
        (
            "colocate_info.csv",
            "speed2",
            2,
            -0.9,
            r"row 2: found speed2 = -0.9, wanted .*\[0, inf\]",
        ),
        ("colocate_info.csv", "model2", 1, "Huge", "row 1: found model2 = Huge, wanted a config"),
        ("colocate_info.csv", "gpu_num1", 3, 2, "row 3: found gpu_num1 = 2, wanted 1"),
    ],
)
def test_bad_value_names_file_row_and_what_was_wanted(
    with_value, file, column, row, value, message
):
    folder = with_value("lucid", file, column, row, value)
    with pytest.raises(TableError, match=f"{file}, {message}"):
        lucid.read(folder)


def test_missing_column_is_named(edited):
    folder = edited("lucid", "single_data.csv", lambda frame: frame.drop(columns="gmem_util"))
    with pytest.raises(TableError, match=r"single_data.csv: found no column 'gmem_util'"):
        lucid.read(folder)


def test_ratios_in_place_of_percent_are_refused(edited):
    def change(frame):
        frame["gpu_util"] /= 100

    folder = edited("lucid", "single_data.csv", change)
    with pytest.raises(TableError, match=r"wanted percent in .*these look like ratios"):
        lucid.read(folder)


def test_percent_in_place_of_speed_ratios_is_refused(edited):
    def change(frame):
        frame["speed1"] *= 100

    folder = edited("lucid", "colocate_info.csv", change)
    with pytest.raises(TableError, match="speed1 with the median 90, wanted shared speed as a"):
        lucid.read(folder)


def test_gib_in_place_of_mib_are_refused(edited):
    def change(frame):
        frame["gmem"] /= 1024

    folder = edited("lucid", "single_data.csv", change)
    with pytest.raises(TableError, match=r"gmem with the median .*wanted MiB"):
        lucid.read(folder)


def test_absent_file_is_named(fixtures):
    with pytest.raises(TableError, match=r"single_data.csv: found no such file"):
        lucid.read(fixtures / "gavel")


def test_public_file_gives_every_run(public_data):
    tables = lucid.read(public_data / "lucid")
    assert len(tables["profiling_runs"]) == 60 + 2 * 922
    assert len(tables["share_labels"]) == 60
