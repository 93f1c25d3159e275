"""Any importable path."""

import pandas as pd
import pytest

from data.errors import TableError
from data.importers import slurm
from data.loaders import KINDS, read_any
from data.tables import write_tables

LAYOUTS = {
    "lucid": "lucid",
    "gavel": "gavel",
    "dlperf": "dlperf",
    "gpumemnet": "gpumemnet",
    "philly": "philly",
}
RUN = {
    "run_id": ["a"],
    "job_key": ["wide"],
    "family": ["wide"],
    "gpu_model": ["slot of a machine"],
    "is_exclusive": [True],
    "jct_s": [3.0],
    "outcome": ["ok"],
}


@pytest.mark.parametrize(("kind", "folder"), LAYOUTS.items())
def test_layout_of_a_folder_is_recognised(fixtures, kind, folder):
    names = [name for name, known in KINDS.items() if known.recognises(fixtures / folder)]
    assert names[0] == kind
    assert read_any(fixtures / folder)


def test_layout_of_a_file_is_recognised(fixtures, tmp_path):
    assert list(read_any(fixtures / "philly" / "philly_vc.csv")) == ["jobs"]
    pd.read_csv(fixtures / "slurm" / "jobs_core.csv").to_parquet(tmp_path / slurm.FILE)
    assert len(read_any(tmp_path / slurm.FILE)["jobs"]) == 3


@pytest.mark.parametrize(
    ("file", "kind"),
    [
        ("slurm/jobs_core.csv", "slurm"),
        ("philly/philly_vc.csv", "philly"),
        ("dlperf/wdl_dlrm_gpu_memory.csv", "dlperf"),
        ("gpumemnet/cnn_data_step1.csv", "gpumemnet"),
    ],
)
@pytest.mark.parametrize("name", ["held_out.csv", "folder/held_out.csv.gz"])
def test_layout_of_a_file_of_another_name_is_told_by_its_columns(
    fixtures, tmp_path, file, kind, name
):
    named = tmp_path / name
    named.parent.mkdir(exist_ok=True)
    pd.read_csv(fixtures / file).to_csv(named, index=False)
    path = tmp_path / name.split("/")[0]
    assert KINDS[kind].recognises(path)
    assert read_any(path).keys() == read_any(fixtures / file).keys()


def test_own_table_is_told_by_its_columns(tmp_path):
    pd.DataFrame(RUN).to_csv(tmp_path / "measured.csv", index=False)
    assert read_any(tmp_path / "measured.csv")["profiling_runs"]["jct_s"].tolist() == [3.0]


def test_imports_of_several_kinds_are_joined(fixtures, tmp_path):
    for kind in ("lucid", "gavel", "philly"):
        write_tables(read_any(fixtures / kind), tmp_path / kind)
    tables = read_any(tmp_path)
    assert set(tables) == {"profiling_runs", "share_labels", "jobs"}
    assert tables["profiling_runs"]["gpu_model"].nunique() == 3


def test_same_run_in_two_imports_is_refused(tmp_path):
    for name in ("one", "two"):
        write_tables({"profiling_runs": pd.DataFrame(RUN)}, tmp_path / name)
    with pytest.raises(TableError, match="found run_id = a a second time"):
        read_any(tmp_path)


def test_half_written_import_is_not_seen(tmp_path):
    write_tables({"profiling_runs": pd.DataFrame(RUN)}, tmp_path / ".lab.tmp")
    with pytest.raises(TableError, match="found no known layout"):
        read_any(tmp_path)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"jct_s": [-1.0]}, r"row 1: found jct_s = -1.0, wanted a number in \[0, inf\]"),
        ({"gpu_util_mean": [40.0]}, r"found gpu_util_mean = 40.0, wanted a number in \[0, 1\]"),
        ({"outcome": ["fine"]}, "found outcome = fine, wanted one of ok, failed"),
        (
            {"start_time": [9.0], "finish_time": [5.0]},
            "found finish_time = 5.000 before start_time",
        ),
        ({"speed": [1.0]}, "found unknown columns 'speed', wanted .* our table profiling_runs"),
    ],
)
def test_own_table_with_an_error_names_it(tmp_path, columns, message):
    path = tmp_path / "measured.csv"
    pd.DataFrame(RUN | columns).to_csv(path, index=False)
    with pytest.raises(TableError, match=f"measured.csv.*{message}"):
        read_any(path)


def test_ids_that_look_like_numbers_stay_what_they_are(tmp_path):
    ids = {"run_id": ["007"], "job_key": ["6214e9"]}
    pd.DataFrame(RUN | ids).to_csv(tmp_path / "measured.csv", index=False)
    run = read_any(tmp_path / "measured.csv")["profiling_runs"].iloc[0]
    assert (run["run_id"], run["job_key"]) == ("007", "6214e9")


def test_own_table_without_a_column_names_it(tmp_path):
    pd.DataFrame(RUN).drop(columns="family").to_csv(tmp_path / "measured.csv", index=False)
    with pytest.raises(TableError, match="found no column 'family', wanted a known layout"):
        read_any(tmp_path / "measured.csv")


@pytest.mark.parametrize(
    ("kind", "mapping", "message"),
    [
        ("nonsense", None, "found the kind 'nonsense', wanted one of lucid"),
        ("mapped", None, "wanted a mapping with the kind mapped"),
        ("lucid", "map.yaml", "wanted a mapping with the kind mapped, and only with it"),
    ],
)
def test_kind_that_does_not_fit_is_refused(fixtures, kind, mapping, message):
    with pytest.raises(TableError, match=message):
        read_any(fixtures / "lucid", kind, mapping)


def test_mapped_file_is_read_by_its_mapping(fixtures):
    folder = fixtures / "mapped"
    assert list(read_any(folder / "jobs.csv", "mapped", folder / "jobs.yaml")) == ["jobs"]


def test_absent_path_is_named(tmp_path):
    with pytest.raises(TableError, match="gone: found nothing, wanted a file or directory"):
        read_any(tmp_path / "gone")


def test_folder_without_our_tables_is_refused_as_such(tmp_path):
    with pytest.raises(TableError, match="found no table, wanted files named after"):
        read_any(tmp_path, "tables")
