"""Any table, by a mapping."""

import pandas as pd
import pytest

from data.errors import SettingError, TableError
from data.importers import mapped
from data.importers.mapping import read_mapping
from data.importers.units import units_of


@pytest.fixture
def read(tmp_path):
    """Write a csv and a mapping, and read the one by the other."""

    def read(frame, mapping):
        frame.to_csv(tmp_path / "source.csv", index=False)
        (tmp_path / "map.yaml").write_text(mapping)
        return mapped.read(tmp_path / "source.csv", tmp_path / "map.yaml")

    return read


RUNS = pd.DataFrame(
    {
        "m": ["wide", "wide"],
        "with": [None, "deep"],
        "card": ["NVIDIA V100", "v100"],
        "alone": ["yes", "no"],
        "it_per_min": [600.0, 300.0],
        "util": [40.0, -1],
        "mem": [1.5, 2.0],
        "state": ["ok", "ok"],
    }
)
MAPPING = """
table: profiling_runs
columns:
  run_id: {numbered: lab}
  job_key: m
  family: m
  gpu_model: card
  neighbour_key: with
  is_exclusive: alone
  steps_per_s: {from: it_per_min, unit: per_min}
  gpu_util_mean: {from: util, unit: percent, missing: [-1]}
  gpu_mem_peak_mib: {from: mem, unit: GiB}
  outcome: state
"""


def test_columns_are_renamed_and_converted(read):
    runs = read(RUNS, MAPPING)["profiling_runs"]
    assert runs["run_id"].tolist() == ["lab-1", "lab-2"]
    assert runs["gpu_model"].tolist() == ["v100", "v100"]
    assert runs["is_exclusive"].tolist() == [True, False]
    assert runs["steps_per_s"].tolist() == [10.0, 5.0]
    assert runs["gpu_mem_peak_mib"].tolist() == [1536.0, 2048.0]


def test_missing_values_are_missing_and_the_rest_is_converted(read):
    runs = read(RUNS, MAPPING)["profiling_runs"]
    assert runs["gpu_util_mean"].isna().tolist() == [False, True]
    assert runs["gpu_util_mean"][0] == pytest.approx(0.4)


def test_words_dates_and_constants(fixtures):
    folder = fixtures / "mapped"
    jobs = mapped.read(folder / "jobs.csv", folder / "jobs.yaml")["jobs"]
    assert jobs["outcome"].tolist() == ["ok", "failed"]
    assert jobs["submit_time"][0] == pd.Timestamp("2024-03-01T11:00:00Z").timestamp()
    assert jobs["mem_mib"][0] == pytest.approx(2.5e9 / 2**20)
    assert jobs["attempt"].tolist() == [0.0, 0.0]


def test_ids_that_look_like_numbers_stay_what_they_are(read):
    runs = read(RUNS.assign(m="007"), MAPPING)["profiling_runs"]
    assert runs["job_key"].tolist() == ["007", "007"]


def test_finish_follows_from_start_and_runtime(fixtures):
    folder = fixtures / "mapped"
    jobs = mapped.read(folder / "jobs.csv", folder / "jobs.yaml")["jobs"]
    assert (jobs["finish_time"] - jobs["start_time"]).tolist() == [90.0, 1.5]


@pytest.mark.parametrize(
    ("given", "third"),
    [
        ("start_time: {from: a, unit: s}\n  finish_time: {from: b, unit: s}", "runtime_s"),
        ("runtime_s: {from: a, unit: s}\n  finish_time: {from: b, unit: s}", "start_time"),
    ],
)
def test_any_third_of_start_finish_and_runtime_follows(read, given, third):
    frame = pd.DataFrame({"a": [5.0], "b": [12.0], "c": ["x"]})
    constants = "attempt: 0, gpus: 1, submit_time: 1, user: u, queue: q, outcome: ok"
    mapping = f"table: jobs\ncolumns:\n  job_id: c\n  {given}\nconstants: {{{constants}}}"
    assert read(frame, mapping)["jobs"][third][0] == 7.0


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("card", "v9000", "row 2: found card = v9000, wanted a known GPU model"),
        ("util", 130.0, r"row 2: found util = 130.0, wanted a number in \[0, 100\]"),
        ("it_per_min", -5.0, r"row 2: found it_per_min = -5.0, .* after conversion from per_min"),
        ("alone", "perhaps", "row 2: found alone = perhaps, wanted true or false"),
        ("state", "exploded", "row 2: found outcome = exploded, wanted one of ok"),
        ("m", None, "row 2: found m = nan, wanted a text"),
    ],
)
def test_bad_value_names_row_and_source_column(read, column, value, message):
    frame = RUNS.astype({column: "object"})
    frame.loc[1, column] = value
    with pytest.raises(TableError, match=f"source.csv, {message}"):
        read(frame, MAPPING)


def test_gpu_model_of_the_mapping_is_known(read):
    runs = read(RUNS.assign(card="Abacus 9"), MAPPING + "gpu_models: [abacus-9]\n")
    assert runs["profiling_runs"]["gpu_model"].tolist() == ["abacus-9"] * 2


def test_word_without_translation_is_refused(read):
    mapping = MAPPING.replace("outcome: state", "outcome: {from: state, values: {fine: ok}}")
    with pytest.raises(TableError, match="row 1: found state = ok, wanted one of fine"):
        read(RUNS, mapping)


def test_absent_source_column_is_named(read):
    with pytest.raises(TableError, match="found no column 'util'"):
        read(RUNS.drop(columns="util"), MAPPING)


def test_numbers_for_moments_want_a_unit(read):
    mapping = MAPPING + "  start_time: it_per_min\n"
    with pytest.raises(
        TableError, match="found numbers in it_per_min, wanted a date, or `unit: s`"
    ):
        read(RUNS, mapping)


def test_unknown_zone_is_refused(read):
    frame = RUNS.assign(when="2024-03-01 12:00:00")
    mapping = MAPPING + "  start_time: {from: when, zone: Middle/Earth}\n"
    with pytest.raises(SettingError, match=r"zone must be an IANA name .*Middle/Earth"):
        read(frame, mapping)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[", "wanted a YAML file with a mapping"),
        ("- a", "wanted a mapping with table"),
        ("table: pairs", "found table 'pairs', wanted one of profiling_runs"),
        ("tabel: jobs", "found unknown keys 'tabel'"),
        (
            "table: jobs\ncolumns: {speed: a}",
            "found unknown columns 'speed', wanted columns of jobs",
        ),
        ("table: jobs\ncolumns: {gpus: {unit: s}}", "wanted either `from` or `numbered`"),
        ("table: jobs\ncolumns: {gpus: {from: a, unit: s}}", "found unit 's', wanted no unit for"),
        (
            "table: jobs\ncolumns: {runtime_s: {from: a, unit: MB}}",
            "found unit 'MB', wanted one of",
        ),
        ("table: jobs\ncolumns: {gpus: {from: a, missing: 3}}", "found 3, wanted a list"),
        ("table: jobs\ncolumns: {gpus: {from: 3}}", "found from 3, wanted a text"),
        ("table: jobs\ncolumns: {gpus: a}\nconstants: {gpus: 1}", "both mapped and constant"),
        (
            "table: jobs\ncolumns: {}\nconstants: {gpus: [1]}",
            r"found \[1\], wanted a text, a number",
        ),
    ],
)
def test_mapping_with_an_error_says_where(tmp_path, text, message):
    path = tmp_path / "map.yaml"
    path.write_text(text)
    with pytest.raises(TableError, match=message):
        read_mapping(path)


def test_absent_mapping_is_named(tmp_path):
    with pytest.raises(TableError, match=r"none.yaml: found .*No such file"):
        read_mapping(tmp_path / "none.yaml")


@pytest.mark.parametrize(
    ("column", "unit", "factor"),
    [
        ("pcie_bytes_per_s_mean", "MiB/s", 2**20),
        ("sm_active_std", "percent", 0.01),
        ("neighbour_overlap", "ratio", 1.0),
        ("limit_s", "h", 3600.0),
        ("finish_time", "ms", 1e-3),
        ("mem_mib", "kB", 1000 / 2**20),
    ],
)
def test_units_follow_from_what_the_column_measures(column, unit, factor):
    assert units_of(column)[unit] == pytest.approx(factor)
