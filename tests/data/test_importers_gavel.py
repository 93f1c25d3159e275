"""Gavel's layout."""

import pytest

from data.errors import TableError
from data.importers import gavel


def runs(path):
    return gavel.read(path)["profiling_runs"]


def test_only_simulated_whole_workers_with_one_gpu_are_read(fixtures):
    alone = runs(fixtures / "gavel").query("is_exclusive")
    assert alone["run_id"].tolist() == [f"gavel-alone-{row}" for row in (1, 2, 4, 5)]
    assert alone["job_key"].tolist() == ["Wide/b16", "Agent", "Wide/b16", "Agent"]
    assert alone["family"].tolist() == ["Wide", "Agent", "Wide", "Agent"]


def test_zero_throughput_is_out_of_memory_without_a_speed(fixtures):
    failed = runs(fixtures / "gavel").query("outcome == 'oom'")
    assert failed["run_id"].tolist() == ["gavel-alone-5", "gavel-pair-4"]
    assert failed["steps_per_s"].isna().all()


def test_two_sides_of_a_pair_name_each_other(fixtures):
    pairs = runs(fixtures / "gavel").set_index("run_id")["neighbour_run_id"]
    assert pairs["gavel-pair-1"] == "gavel-pair-2"
    assert pairs["gavel-pair-2"] == "gavel-pair-1"


def test_self_pair_is_listed_once_and_names_no_other_run(fixtures):
    pairs = runs(fixtures / "gavel").set_index("run_id")["neighbour_run_id"]
    assert pairs.isna()["gavel-pair-3"]


@pytest.mark.parametrize(
    ("column", "row", "value", "message"),
    [
        ("throughput", 2, -1.0, "row 2: found throughput = -1.0"),
        ("worker_type", 1, "v9000", "row 1: found worker_type = v9000, wanted one of k80, p100"),
        ("job_type", 2, "Wide (batch size 16)", "row 2: found Wide .* again, wanted each once"),
    ],
)
def test_bad_value_names_file_and_row(with_value, column, row, value, message):
    folder = with_value("gavel", "isolated_throughputs.csv", column, row, value)
    with pytest.raises(TableError, match=f"isolated_throughputs.csv, {message}"):
        gavel.read(folder)


def test_file_without_simulated_rows_is_refused(edited):
    folder = edited("gavel", "pair_throughputs.csv", lambda frame: frame.tail(1))
    with pytest.raises(TableError, match="found none of them, wanted rows of simulation"):
        gavel.read(folder)


def test_public_files_give_two_gpu_models(public_data):
    table = runs(public_data / "gavel")
    assert table["gpu_model"].value_counts().to_dict() == {"p100": 702, "v100": 702}
    assert (table["outcome"] == "oom").sum() == 60
