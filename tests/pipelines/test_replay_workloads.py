"""Workloads of a replay: halves that share nothing, draws that respect length, beliefs."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from data.errors import TableError
from data.importers import lucid
from data.schemas import PROFILING_RUNS, checked
from pipelines.replay_models import none, oracle, other_half
from pipelines.replay_workloads import draw, workloads_of
from scheduler_client.replay.trace import Trace


def runs_of(count=8, seed=3):
    """Profiling runs of `count` workloads and all their pairs: they share a card's time."""
    rng = np.random.default_rng(seed)
    busy = np.linspace(0.1, 0.9, count)
    rows = [run(f"alone-{i}", i, None, busy[i], 100.0) for i in range(count)]
    for i in range(count):
        for k in range(count):
            speed = 100.0 / max(1.0, busy[i] + busy[k]) * rng.uniform(0.97, 1.0)
            rows.append(run(f"pair-{i}-{k}", i, k, None, speed))
    return checked(pd.DataFrame(rows), PROFILING_RUNS, "made runs")


def run(run_id, job, neighbour, busy, speed):
    return {
        "run_id": run_id,
        "job_key": f"w{job}",
        "family": f"f{job}",
        "gpu_model": "card",
        "neighbour_key": None if neighbour is None else f"w{neighbour}",
        "neighbour_run_id": None,
        "is_exclusive": neighbour is None,
        "steps_per_s": speed,
        "gpu_util_mean": busy,
        "gpu_mem_mib_mean": 4000.0 if neighbour is None else None,
        "outcome": "ok",
    }


def test_halves_share_neither_workload_nor_pair():
    workloads = workloads_of(runs_of(), seed=1)
    learnt, scheduled = set(workloads.learnt["job_key"]), set(workloads.truth.names)
    assert len(learnt) == len(scheduled) == 4
    assert not learnt & scheduled
    assert set(workloads.labels["job_key"]) | set(workloads.labels["neighbour_key"]) <= learnt


def test_split_depends_on_its_seed_alone():
    names = [workloads_of(runs_of(), seed).truth.names for seed in (1, 1, 2)]
    assert names[0] == names[1] != names[2]


def test_memory_decides_who_fits():
    fits = workloads_of(runs_of(), 1, card_mem_mib=7000).truth.fits
    assert not fits.any()
    assert workloads_of(runs_of(), 1, card_mem_mib=8000).truth.fits.all()


def test_too_few_workloads_are_refused():
    with pytest.raises(TableError, match="at least four"):
        workloads_of(runs_of(3), seed=1)


def trace_with(runtime_s):
    zero = np.zeros(len(runtime_s), np.int64)
    ids = tuple(str(index) for index in range(len(runtime_s)))
    return Trace(ids, zero * 1.0, np.array(runtime_s), zero + 1, zero, zero, ("only",))


def test_long_jobs_draw_heavy_workloads():
    workloads = workloads_of(runs_of(), seed=1)
    trace = draw(trace_with(np.geomspace(1, 1e6, 2000)), workloads, seed=4)
    busy = workloads.truth.utilisation[trace.workload]
    assert busy[-500:].mean() > busy[:500].mean() + 0.1
    assert set(trace.workload) == set(range(4))


def test_draw_is_the_same_for_the_same_seed():
    workloads, trace = workloads_of(runs_of(), seed=1), trace_with(np.geomspace(1, 1e6, 300))
    drawn = [draw(trace, workloads, seed).workload.tolist() for seed in (4, 4, 5)]
    assert drawn[0] == drawn[1] != drawn[2]


def test_oracle_believes_the_truth_and_none_adds_utilisation():
    workloads = workloads_of(runs_of(), seed=1)
    assert (oracle(workloads).upper == workloads.truth.slowdown).all()
    busy = np.array([0.3, 0.5, 0.6, 0.9])
    light = replace(workloads, truth=replace(workloads.truth, utilisation=busy))
    assert none(light).value[0].tolist() == pytest.approx([1, 1, 1, 1.2])


def test_forest_of_the_other_half_ranks_pairs_it_has_not_seen():
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
