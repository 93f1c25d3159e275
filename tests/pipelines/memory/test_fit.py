"""The quadratic itself: what it learns, and how sure it says it is."""

import numpy as np
import pandas as pd
import pytest

from data.domain import ModelStructure
from features.structure import structures_frame
from pipelines.memory.calibration import calibrated_memory_bundle, kin_folds
from pipelines.memory.fit import QuadraticOptions, uncalibrated_memory_bundle
from serving.inference.memory import memory_estimates, memory_estimates_of_rows

OPTIONS = QuadraticOptions()


def model(dense=2**20, batch=8, framework="pytorch/2", family="mlp", **more):
    return ModelStructure(
        family, batch, framework=framework, dense_parameters=dense, activations=2**18, **more
    )


def measured(structures, peaks):
    structures = list(structures)
    return structures_frame(structures).assign(
        run_id=[str(at) for at in range(len(structures))],
        dataset="test",
        configuration=[str(at) for at in range(len(structures))],
        gpu_mem_peak_mib=np.asarray(peaks, dtype=np.float64),
        outcome="ok",
    )


def linear_runs(framework="pytorch/2", family="mlp", context=500.0, seed=0):
    """Runs that take four MiB for a MiB of weights, one for a MiB kept, and the context."""
    random = np.random.default_rng(seed)
    dense = random.integers(2**18, 2**25, 60)
    batch = random.integers(1, 300, 60)
    peaks = context + 4 * dense / 2**18 + batch
    structures = [
        model(int(d), int(b), framework, family) for d, b in zip(dense, batch, strict=True)
    ]
    return measured(structures, peaks)


def test_sum_of_parts_goes_on_beyond_the_learnt_sizes():
    bundle = uncalibrated_memory_bundle(linear_runs(), OPTIONS)
    found = memory_estimates(bundle, [model(2**28, 2000)]).iloc[0]
    assert found["value"] == pytest.approx(500 + 4 * 2**10 + 2000, rel=0.03)
    assert not found["in_domain"]


def test_nothing_that_is_more_makes_less():
    random = np.random.default_rng(1)
    runs = linear_runs().assign(gpu_mem_peak_mib=random.uniform(500, 5000, 60))
    bundle = uncalibrated_memory_bundle(runs, OPTIONS)
    sizes = [memory_estimates(bundle, [model(2**at)])["value"][0] for at in range(16, 30, 2)]
    assert sizes == sorted(sizes)


def test_with_coefficients_of_either_sign_what_is_more_may_make_less():
    runs = linear_runs()
    peak = 9000 - 64 * runs["dense_parameters"] / 2**20
    bundle = uncalibrated_memory_bundle(
        runs.assign(gpu_mem_peak_mib=peak), QuadraticOptions(positive=False)
    )
    small, large = (memory_estimates(bundle, [model(2**at)])["value"][0] for at in (20, 24))
    assert small - large == pytest.approx(64 * 15, rel=0.05)


def test_the_less_errors_are_relative_the_more_the_largest_count():
    # The large models take half of what the small ones would tell.
    runs = linear_runs(context=0.0)
    large = runs["dense_parameters"] > 2**24
    runs = runs.assign(gpu_mem_peak_mib=runs["gpu_mem_peak_mib"].where(~large, lambda x: x / 2))
    errors = []
    for power in (1.0, 0.5, 0.0):
        bundle = uncalibrated_memory_bundle(runs, QuadraticOptions(peak_power=power))
        told = memory_estimates_of_rows(bundle, runs)["value"]
        errors.append(float((told - runs["gpu_mem_peak_mib"]).pow(2).mean()))
    assert errors == sorted(errors, reverse=True)


def test_frameworks_keep_contexts_of_their_own():
    runs = pd.concat(
        [linear_runs(), linear_runs("jax/1", context=3000.0, seed=1)], ignore_index=True
    )
    bundle = uncalibrated_memory_bundle(runs, OPTIONS)
    here, there = (
        memory_estimates(bundle, [model(framework=name)])["value"][0]
        for name in ("pytorch/2", "jax/1")
    )
    assert there - here == pytest.approx(2500, rel=0.05)


def test_size_that_no_run_had_counts_as_usual():
    bundle = uncalibrated_memory_bundle(linear_runs(), OPTIONS)
    table = {"embedding_rows": 2**20, "embedding_width": 64}
    plain, tabled = (
        memory_estimates(bundle, [model(2**24, **more)])["value"][0] for more in ({}, table)
    )
    assert tabled - plain == pytest.approx(2 * 256, rel=0.01)  # weights and gradients


def test_bounds_hold_and_widen_for_strangers():
    runs = pd.concat(
        [
            linear_runs(),
            linear_runs(family="cnn", context=700.0, seed=1),
            linear_runs("jax/1", context=1500.0, seed=2),
        ],
        ignore_index=True,
    )
    bundle, _ = calibrated_memory_bundle(runs, OPTIONS, 0)
    found = memory_estimates_of_rows(bundle, runs)
    held = runs["gpu_mem_peak_mib"].between(found["lower"], found["upper"])
    assert held.mean() > 0.85
    ratios = found["upper"] / found["value"]
    stranger = memory_estimates(bundle, [model(framework="mxnet/1")]).iloc[0]
    assert stranger["upper"] / stranger["value"] > ratios.median()
    assert not stranger["in_domain"]


def test_kin_is_held_out_at_every_level_that_has_two():
    runs = pd.concat([linear_runs(), linear_runs(family="cnn", seed=1)], ignore_index=True)
    assert len(kin_folds(runs, 5, 0)) == 4  # two versions with family, two kinds, one framework
    assert kin_folds(linear_runs(), 5, 0) == []
