"""The embedded sample is complete, measured, and says what its README says."""

import json
import os

import numpy as np
import pytest

from data.sample_data import sample_path, sample_runs, sample_workloads_path
from pipelines.profiling.workloads import load_workloads


@pytest.fixture(scope="module")
def runs():
    return sample_runs()


@pytest.fixture(scope="module")
def workloads():
    return load_workloads(sample_workloads_path())


def slowdowns(runs):
    alone = runs[runs["neighbour_key"].isna()].groupby("job_key")["jct_s"].median()
    pairs = runs[runs["neighbour_key"].notna()]
    return pairs.assign(slowdown=pairs["jct_s"] / pairs["job_key"].map(alone))


def test_every_workload_has_at_least_three_exclusive_runs(runs, workloads):
    alone = runs[runs["is_exclusive"]]["job_key"].value_counts()
    assert set(alone.index) == {workload.name for workload in workloads}
    assert alone.min() >= 3


def test_every_pair_of_paired_workloads_was_measured_from_both_sides(runs, workloads):
    names = [workload.name for workload in workloads if workload.paired]
    pairs = runs.dropna(subset="neighbour_key")
    found = set(zip(pairs["job_key"], pairs["neighbour_key"], strict=True))
    assert 12 <= len(names) <= 14
    assert found == {(job, neighbour) for job in names for neighbour in names}


def test_nothing_failed(runs):
    assert set(runs["outcome"]) == {"ok"}


def test_families_agree_with_the_workloads(runs, workloads):
    families = {workload.name: workload.family for workload in workloads}
    assert (runs["job_key"].map(families) == runs["family"]).all()


def test_exclusive_repeats_differ_by_little(runs):
    alone = runs[runs["neighbour_key"].isna()].groupby("job_key")["jct_s"]
    assert (alone.std() / alone.median()).median() < 0.05


def test_slowdowns_are_those_of_two_jobs_on_one_core(runs):
    measured = slowdowns(runs)["slowdown"]
    low, high = np.quantile(measured, [0.1, 0.9])
    assert measured.between(0.9, 4.0).all()
    assert low < 1.3
    assert high > 1.8


def test_pairs_overlapped_almost_wholly(runs):
    assert runs["neighbour_overlap"].dropna().min() > 0.9


def test_memory_grows_with_structure(runs, workloads):
    rows = {w.name: w.structure.embedding_rows for w in workloads if w.family == "recommender"}
    peaks = runs[runs["is_exclusive"]].groupby("job_key")["gpu_mem_peak_mib"].median()
    assert peaks[max(rows, key=rows.get)] > 2 * peaks[min(rows, key=rows.get)]


def test_every_workload_has_a_structure_and_a_program(workloads):
    for workload in workloads:
        assert workload.structure is not None
        assert os.path.exists(workload.command[1])  # noqa: PTH110 - a text of a command


def test_the_machine_is_known():
    assert json.loads((sample_path() / "machine.json").read_text())["device"] == "cpu"
