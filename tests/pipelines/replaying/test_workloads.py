"""Workloads of a replay: halves that share nothing, draws that respect length, beliefs."""

from dataclasses import replace

import numpy as np
import pytest

from data.errors import TableError
from data.importers import lucid
from pipelines.replaying.models import none, oracle, other_half
from pipelines.replaying.workloads import draw, workloads_of
from scheduler_client.replay.trace import Trace


def test_halves_share_neither_workload_nor_pair(runs_of):
    workloads = workloads_of(runs_of(), seed=1)
    learnt, scheduled = set(workloads.learnt["job_key"]), set(workloads.truth.names)
    assert len(learnt) == len(scheduled) == 4
    assert not learnt & scheduled
    assert set(workloads.labels["job_key"]) | set(workloads.labels["neighbour_key"]) <= learnt


def test_split_depends_on_its_seed_alone(runs_of):
    names = [workloads_of(runs_of(), seed).truth.names for seed in (1, 1, 2)]
    assert names[0] == names[1] != names[2]


def test_memory_decides_who_fits(runs_of):
    fits = workloads_of(runs_of(), 1, card_mem_mib=7000).truth.fits
    assert not fits.any()
    assert workloads_of(runs_of(), 1, card_mem_mib=8000).truth.fits.all()


def test_too_few_workloads_are_refused(runs_of):
    with pytest.raises(TableError, match="at least four"):
        workloads_of(runs_of(3), seed=1)


def trace_with(runtime_s):
    zero = np.zeros(len(runtime_s), np.int64)
    ids = tuple(str(index) for index in range(len(runtime_s)))
    return Trace(ids, zero * 1.0, np.array(runtime_s), zero + 1, zero, zero, ("only",))


def test_long_jobs_draw_heavy_workloads(runs_of):
    workloads = workloads_of(runs_of(), seed=1)
    trace = draw(trace_with(np.geomspace(1, 1e6, 2000)), workloads, seed=4)
    busy = workloads.truth.utilisation[trace.workload]
    assert busy[-500:].mean() > busy[:500].mean() + 0.1
    assert set(trace.workload) == set(range(4))


def test_draw_is_the_same_for_the_same_seed(runs_of):
    workloads, trace = workloads_of(runs_of(), seed=1), trace_with(np.geomspace(1, 1e6, 300))
    drawn = [draw(trace, workloads, seed).workload.tolist() for seed in (4, 4, 5)]
    assert drawn[0] == drawn[1] != drawn[2]


def test_oracle_believes_the_truth_and_none_adds_utilisation(runs_of):
    workloads = workloads_of(runs_of(), seed=1)
    assert (oracle(workloads).upper == workloads.truth.slowdown).all()
    busy = np.array([0.3, 0.5, 0.6, 0.9])
    light = replace(workloads, truth=replace(workloads.truth, utilisation=busy))
    assert none(light).value[0].tolist() == pytest.approx([1, 1, 1, 1.2])


def test_forest_of_the_other_half_ranks_pairs_it_has_not_seen(runs_of):
    workloads = workloads_of(runs_of(16), seed=1)
    beliefs = other_half(workloads, seed=0)
    truth = workloads.truth.slowdown
    assert np.corrcoef(beliefs.value.ravel(), truth.ravel())[0, 1] > 0.8
    assert (beliefs.upper >= beliefs.value).all()
    assert beliefs.value.min() >= 1


def test_lucid_gives_two_halves_of_measured_pairs(public_data):
    workloads = workloads_of(lucid.read(public_data / "lucid")["profiling_runs"], seed=0)
    truth = workloads.truth
    assert len(truth.names) == len(workloads.learnt) == 22
    assert 0.6 < truth.is_measured.mean() < 0.8
    assert truth.slowdown[~truth.is_measured].mean() > truth.slowdown[truth.is_measured].mean()
