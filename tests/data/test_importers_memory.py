"""The layouts of DLPerf and GPUMemNet."""

import numpy as np
import pytest

from data.errors import TableError
from data.importers import dlperf, gpumemnet


@pytest.fixture
def dlperf_runs(fixtures):
    return dlperf.read(fixtures / "dlperf")["memory_runs"]


@pytest.fixture
def gpumemnet_runs(fixtures):
    return gpumemnet.read(fixtures / "gpumemnet")["memory_runs"]


def test_dlperf_structure_is_kept(dlperf_runs):
    first = dlperf_runs.iloc[0]
    assert first[["family", "framework", "gpu_model"]].tolist() == [
        "WideDeep",
        "HugeCTR/3.9",
        "v100-sxm2-32gb",
    ]
    assert first[["gpus", "batch_size", "embedding_rows", "embedding_width", "depth"]].tolist() == [
        4,
        4096,
        1_000_000,
        8,
        3,
    ]


def test_dlperf_depth_that_is_not_stated_is_missing(dlperf_runs):
    assert np.isnan(dlperf_runs.loc[1, "depth"])


def test_dlperf_oom_and_suspect_readings_have_no_memory(dlperf_runs):
    assert dlperf_runs["outcome"].tolist() == ["ok", "ok", "oom", "ok"]
    assert dlperf_runs["gpu_mem_peak_mib"].isna().tolist() == [False, False, True, True]


@pytest.mark.parametrize(
    ("column", "row", "value", "message"),
    [
        ("device0_memory_mb", 1, np.nan, "row 1: found device0_memory_mb = nan, wanted a number"),
        ("gpu_model", 2, "Abacus 9", "row 2: found gpu_model = Abacus 9, wanted a known GPU"),
        ("n_gpus", 2, 0, r"row 2: found n_gpus = 0, wanted a number in \[1, inf\]"),
        ("oom", 1, "maybe", "row 1: found oom = maybe, wanted one of True, False"),
    ],
)
def test_dlperf_bad_value_names_the_row(with_value, column, row, value, message):
    folder = with_value("dlperf", dlperf.FILE, column, row, value)
    with pytest.raises(TableError, match=message):
        dlperf.read(folder)


def test_dlperf_bytes_in_place_of_mib_are_refused(edited):
    def change(frame):
        frame["device0_memory_mb"] *= 2**20

    with pytest.raises(TableError, match="device0_memory_mb with the median"):
        dlperf.read(edited("dlperf", dlperf.FILE, change))


def test_gpumemnet_reads_every_file_of_the_folder(gpumemnet_runs):
    assert gpumemnet_runs["family"].tolist() == ["cnn"] * 4 + ["mlp"] * 2
    assert set(gpumemnet_runs["dataset"]) == {"gpumemnet-cnn-step1", "gpumemnet-mlp-step1"}


def test_gpumemnet_counters_not_sampled_are_missing(gpumemnet_runs):
    signals = ["gpu_util_mean", "sm_active_mean", "sm_occupancy_mean", "fp32_active_mean"]
    assert gpumemnet_runs.loc[0, signals].isna().all()
    assert gpumemnet_runs.loc[1, signals].tolist() == [0.8, 0.7, 0.3, 0.4]


def test_gpumemnet_crash_for_lack_of_memory_is_an_outcome(gpumemnet_runs):
    assert gpumemnet_runs.loc[2, "outcome"] == "oom"


def test_gpumemnet_row_without_layers_has_no_structure_and_no_memory(gpumemnet_runs):
    unknown = ["depth", "activations", "dense_parameters", "gpu_mem_peak_mib"]
    assert gpumemnet_runs.loc[3, unknown].isna().all()


def test_gpumemnet_same_layers_and_batch_are_one_configuration(gpumemnet_runs):
    configuration = gpumemnet_runs["configuration"]
    assert configuration[0] == configuration[1]
    assert configuration.nunique() == 5


def test_gpumemnet_outputs_of_layers_are_told_by_run(fixtures):
    runs = gpumemnet.read(fixtures / "gpumemnet")["memory_runs"]
    told = gpumemnet.outputs(fixtures / "gpumemnet")
    assert told.index.tolist() == runs["run_id"].tolist()
    assert (told >= 0).any()


def test_gpumemnet_one_file_can_be_read_alone(fixtures):
    runs = gpumemnet.read(fixtures / "gpumemnet" / "mlp_data_step1.csv")["memory_runs"]
    assert runs["dense_parameters"].tolist() == [132.0, 462.0]


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("Avg SMACT", 7.0, r"row 2: found Avg SMACT = 7.0, wanted a number in \[0, 1\]"),
        ("Batch Size", 0, "row 2: found Batch Size = 0"),
        ("Max GPU Memory (MiB)", np.nan, r"row 2: found Max GPU Memory \(MiB\) = nan"),
    ],
)
def test_gpumemnet_bad_value_names_the_row(with_value, column, value, message):
    folder = with_value("gpumemnet", "mlp_data_step1.csv", column, 2, value)
    with pytest.raises(TableError, match=f"mlp_data_step1.csv, {message}"):
        gpumemnet.read(folder)


def test_folder_without_gpumemnet_files_is_refused(tmp_path):
    with pytest.raises(TableError, match="found none of them, wanted a csv file of mlp_data"):
        gpumemnet.read(tmp_path)


def test_public_files_give_every_run(public_data):
    recommendation = dlperf.read(public_data / "dlperf-recsys")["memory_runs"]
    assert len(recommendation) == 305
    assert (recommendation["outcome"] == "oom").sum() == 2
    generated = gpumemnet.read(public_data / "gpumemnet")["memory_runs"]
    assert len(generated) == 3000 + 3000 + 2061
    assert (generated["outcome"] == "oom").sum() == 384
