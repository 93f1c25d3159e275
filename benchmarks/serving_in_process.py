"""What needs no server: the compiled forest against scikit-learn, and the memory of pairs."""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from time import thread_time

import numpy as np
import pandas as pd

from benchmarks.serving_bench import Bench
from benchmarks.serving_questions import BATCH, placements_question
from benchmarks.serving_row import Row
from benchmarks.serving_sample import GPU_MODEL
from data.domain import JobRequest
from features.history import RuntimeHistory
from features.requests import requests_frame, running_frame
from serving.forest.check import with_compiled_forest
from serving.inference.bundle import Floats
from serving.inference.interference import slowdown_estimates
from serving.inference.interference_rows import forest_question
from serving.inference.known_jobs import KnownJobs
from serving.inference.slowdowns import Slowdowns
from serving.predictor import Predictor
from serving.web.endpoints import ENDPOINTS
from serving.web.wire_models import PlacementsAnswer
from serving.web.wire_schema import Writer

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
    pairs = drawn_pairs(bench, 10_000)
    known.estimates(pairs)
    (seconds,) = quickest({"memory": lambda: known.estimates(pairs)})
    rate = len(pairs) / seconds
    yield Row("repeated pairs from memory", rate, "rows/s", 1e6, 4e5, at_least=True)


def pair_rows(bench: Bench) -> Iterator[Row]:
    """Compare pairs that were never asked, from arrays, with the same from tables."""
    bundle = with_compiled_forest(bench.bundle)
    known = KnownJobs(bundle)
    for n, bound in ((1, 2.0), (BATCH, 1.5)):
        pairs = drawn_pairs(bench, n)
        frame = pd.DataFrame(pairs, columns=["job_key", "neighbour_key", "gpu_model"])
        ours, tables = quickest(
            {
                "ours": partial(known.estimates, pairs),
                "tables": partial(slowdown_estimates, bundle, frame),
            }
        )
        name = f"pairs never asked before: tables / arrays, {n:,} at once"
        beside = f"{tables * 1e3:.2f} / {ours * 1e3:.2f} ms, {n / ours:,.0f} rows/s"
        yield Row(name, tables / ours, "ratio", None, bound, at_least=True, beside=beside)


def placement_rows(bench: Bench) -> Iterator[Row]:
    """Measure what one question about 1,000 cards takes without any server."""
    bundle = with_compiled_forest(bench.bundle)
    backend = Backend(Predictor({bundle.spec.name: bundle}, _without_history))
    (endpoint,) = (each for each in ENDPOINTS if each.path == "/v1/placements")
    (body,) = placements_question(bench.fleet.keys, bodies=1).bodies
    request = endpoint.reader.read(body)
    answer, _ = endpoint.answer(backend, request)
    plain = Writer(PlacementsAnswer)
    whole, read, written, by_pydantic = quickest(
        {
            "whole": partial(endpoint.respond, backend, body),
            "read": partial(endpoint.reader.read, body),
            "written": partial(endpoint.writer.write, answer),
            "by_pydantic": partial(plain.write, answer),
        }
    )
    beside = f"read {read * 1e3:.2f}, write {written * 1e3:.2f} (plain: {by_pydantic * 1e3:.2f}) ms"
    name = "placements, 1 job x 1,000 occupied cards, computing"
    yield Row(name, whole * 1e3, "ms", None, 15.0, beside=beside)


def _without_history(jobs: Sequence[JobRequest], running: Sequence[JobRequest]) -> pd.DataFrame:
    return RuntimeHistory().transform(requests_frame(jobs), running=running_frame(running))


@dataclass(frozen=True, slots=True)
class Backend:
    """A backend with one predictor and nothing else."""

    found: Predictor

    def predictor(self) -> Predictor:
        """Return the predictor."""
        return self.found


def drawn_pairs(bench: Bench, n: int) -> list[tuple[str, str, str]]:
    """Return `n` pairs drawn at random."""
    random = np.random.default_rng(2)
    keys = np.array(bench.fleet.keys)[random.integers(0, len(bench.fleet.keys), (n, 2))]
    return [(str(job), str(neighbour), GPU_MODEL) for job, neighbour in keys]


def forest_rate(bench: Bench) -> float:
    """Return the rows/s of the compiled forest in batches of 1,024, on one thread."""
    quick = with_compiled_forest(bench.bundle).predict
    rows = fresh_rows(bench, BATCH)
    (seconds,) = quickest({"forest": lambda: quick(rows)})
    return BATCH / seconds


def fresh_rows(bench: Bench, n: int) -> Floats:
    """Return what the forest is asked about `n` pairs drawn at random."""
    frame = pd.DataFrame(drawn_pairs(bench, n), columns=["job_key", "neighbour_key", "gpu_model"])
    return forest_question(bench.bundle, frame).rows.to_numpy(np.float64)


def quickest(calls: Mapping[str, Callable[[], object]]) -> list[float]:
    """Return the least computing time of each call (s), all taking turns."""
    best = dict.fromkeys(calls, float("inf"))
    for _ in range(ROUNDS):
        for name, call in calls.items():
            call()  # its data is in the cache, as in a busy service
            start = thread_time()  # other work on the machine counts less than by the clock
            call()
            best[name] = min(best[name], thread_time() - start)
    return list(best.values())
