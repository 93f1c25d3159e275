"""What needs no server: the compiled forest against scikit-learn, and the memory of pairs."""

import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from time import perf_counter

import numpy as np
import pandas as pd

from benchmarks.serving_bench import Bench
from benchmarks.serving_questions import BATCH
from benchmarks.serving_row import Row
from benchmarks.serving_sample import GPU_MODEL
from serving.forest.check import with_compiled_forest
from serving.inference.bundle import Bundle, Floats
from serving.inference.interference_rows import forest_question
from serving.inference.slowdowns import Slowdowns

ROUNDS = 15
EQUAL = 1e-6
FOREST_LIMITS = {1: (100.0, 40.0), 64: (None, 5.0), BATCH: (4.0, 1.6)}
"""Rows at a time: target and bound of the ratio."""


def forest_rows(bench: Bench) -> Iterator[Row]:
    """Compare the compiled forest with ``RandomForestRegressor.predict``, on one thread."""
    quick = with_compiled_forest(bench.bundle).predict
    forest = bench.bundle.estimator
    rows = fresh_rows(bench, BATCH)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # rows without column names
        native: Callable[[Floats], Floats] = forest.predict  # type: ignore[attr-defined]
        apart = float(np.abs(quick(rows) - native(rows)).max())
        yield Row("forest: largest difference from scikit-learn", apart, "", EQUAL, EQUAL)
        for n, (target, bound) in FOREST_LIMITS.items():
            some = rows[:n]
            ours, theirs = quickest({"ours": partial(quick, some), "theirs": partial(native, some)})
            beside = f"{theirs * 1e3:.3f} / {ours * 1e3:.3f} ms"
            name = f"forest: scikit-learn / compiled, {n:,} row(s)"
            yield Row(name, theirs / ours, "ratio", target, bound, at_least=True, beside=beside)


def memory_rows(bench: Bench) -> Iterator[Row]:
    """Measure how quickly repeated pairs are answered."""
    known = Slowdowns(with_compiled_forest(bench.bundle))
    random = np.random.default_rng(0)
    keys = np.array(bench.fleet.keys)[random.integers(0, len(bench.fleet.keys), (10_000, 2))]
    pairs = [(str(job), str(neighbour), GPU_MODEL) for job, neighbour in keys]
    known.estimates(pairs)
    (seconds,) = quickest({"memory": lambda: known.estimates(pairs)})
    rate = len(pairs) / seconds
    yield Row("repeated pairs from memory", rate, "rows/s", 1e6, 4e5, at_least=True)


def forest_rate(bench: Bench) -> float:
    """Return the rows/s of the compiled forest in batches of 1,024, on one thread."""
    quick = with_compiled_forest(bench.bundle).predict
    rows = fresh_rows(bench, BATCH)
    (seconds,) = quickest({"forest": lambda: quick(rows)})
    return BATCH / seconds


def fresh_rows(bench: Bench, n: int) -> Floats:
    """Return what the forest is asked about `n` pairs drawn at random."""
    bundle: Bundle = bench.bundle
    random = np.random.default_rng(1)
    keys = np.array(bench.fleet.keys)[random.integers(0, len(bench.fleet.keys), (n, 2))]
    named = {"job_key": keys[:, 0], "neighbour_key": keys[:, 1], "gpu_model": GPU_MODEL}
    return forest_question(bundle, pd.DataFrame(named)).rows.to_numpy(np.float64)


def quickest(calls: Mapping[str, Callable[[], object]]) -> list[float]:
    """Return the shortest time of each call (s), all taking turns."""
    best = dict.fromkeys(calls, float("inf"))
    for _ in range(ROUNDS):
        for name, call in calls.items():
            call()  # its data is in the cache, as in a busy service
            start = perf_counter()
            call()
            best[name] = min(best[name], perf_counter() - start)
    return list(best.values())
