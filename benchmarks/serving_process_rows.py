"""Rows about whole processes: start, memory, throughput of two workers, swaps, a soak."""

import gc
import threading
import time
from collections.abc import Iterator

from benchmarks.serving_bench import MANY_KEYS, Bench
from benchmarks.serving_in_process import forest_rate
from benchmarks.serving_processes import Served
from benchmarks.serving_questions import BATCH, fresh_pairs_question, pairs_question
from benchmarks.serving_registry import FolderRegistry
from benchmarks.serving_row import Row
from benchmarks.serving_wrk import load

STARTS = 3
STEADY_PAUSE_MS, STEADY_CONNECTIONS = 19, 4  # about 200 requests/s
SETTLE_S = 3.0  # more than BentoML keeps a request's timer
MANY_REQUESTS = 100_000
SETTLED = 200  # objects; fewer come and go with the threads that follow registry and job log


def start_rows(bench: Bench) -> Iterator[Row]:
    """Start on a warm cache a few times; read the memory of a worker that has answered."""
    ready_s, cpu_s, rss_mib = [], [], []
    question = pairs_question(bench.fleet.keys)
    with FolderRegistry(*bench.versions) as registry:
        with bench.start(registry):
            pass  # fills the cache
        for _ in range(STARTS):
            with bench.start(registry) as service:
                ready_s.append(service.ready_s)
                cpu_s.append(service.ready_cpu_s)
                load(service.url, question, 4, 2.0)
                rss_mib.append(max(service.rss_mib()))
    starts = ", ".join(f"{each:.2f}" for each in ready_s)
    beside = f"of {starts}; {min(cpu_s):.2f} s of computing"
    yield Row("start to ready, warm cache", min(ready_s), "s", 3.0, 8.0, beside=beside)
    yield Row("RSS of a worker", max(rss_mib), "MiB", 300.0 * 1e6 / 2**20, 420.0)


def throughput_rows(bench: Bench) -> Iterator[Row]:
    """Ask two workers for new pairs, 1,024 at a time, and compare with the forest alone."""
    alone = 2 * forest_rate(bench)
    with bench.service(workers=2, champion=3) as service:
        question = fresh_pairs_question(MANY_KEYS)
        load(service.url, question, 4, 1.0)
        found = max(
            (load(service.url, question, 4, bench.seconds) for _ in range(bench.rounds)),
            key=lambda each: each.per_second,
        )
        share = found.per_second * BATCH / alone
        beside = f"{found.per_second * BATCH:,.0f} of {alone:,.0f} rows/s"
        name = "rows/s through HTTP, 2 workers, new pairs / forest alone"
        yield Row(name, share, "ratio", 0.7, 0.15, at_least=True, beside=beside)
    with bench.service(workers=2) as service:
        question = pairs_question(bench.fleet.keys, BATCH)
        load(service.url, question, 4, 1.0)
        found = load(service.url, question, 4, bench.seconds)
        share = found.per_second * BATCH / alone
        beside = f"{found.per_second * BATCH:,.0f} rows/s"
        name = "rows/s through HTTP, 2 workers, known pairs / forest alone"
        yield Row(name, share, "ratio", 0.7, 0.7, at_least=True, beside=beside)


def swap_rows(bench: Bench) -> Iterator[Row]:
    """Move the alias back and forth under 200 requests/s."""
    question = pairs_question(bench.fleet.keys)
    with FolderRegistry(*bench.versions) as registry, bench.start(registry, 2) as service:

        def steady(seconds: float) -> tuple[float, float, int, int]:
            seen = load(service.url, question, STEADY_CONNECTIONS, seconds, STEADY_PAUSE_MS)
            return seen.p99_ms, seen.max_ms, seen.failed, seen.requests

        steady(2)
        still_ms, _, failed, _ = steady(3 * bench.seconds)
        stop = threading.Event()
        mover = threading.Thread(target=_move, args=(registry, stop))
        mover.start()
        swap_ms, longest_ms, failed_too, requests = steady(4 * bench.seconds)
        stop.set()
        mover.join()
        swaps = _swaps(service.ask("/metrics"))
    beside = f"{swap_ms:.2f} ({still_ms:.2f}) ms, longest {longest_ms:.1f}, {swaps:g} swaps"
    yield Row(
        "swap under 200 requests/s: failed", failed + failed_too, "of", 0, 0, beside=f"{requests}"
    )
    name = "swap under 200 requests/s: p99 during / before"
    yield Row(name, swap_ms / still_ms, "ratio", 2.0, 40.0, beside=beside)


def object_rows(bench: Bench) -> Iterator[Row]:
    """Count what is alive before and after 100,000 requests."""
    question = pairs_question(bench.fleet.keys)
    with bench.service() as service:
        load(service.url, question, 4, 2.0)
        before = _settled_objects(bench, service)
        asked = 0
        while asked < MANY_REQUESTS:
            asked += load(service.url, question, 16, 5.0).requests
        after = _settled_objects(bench, service)
        environ = service.workers()[0].environ()
        lines = len(service.log.read_bytes().splitlines())
    beside = f"{before:,} before, {after:,} after {asked:,} requests"
    name = "objects alive after 100,000 requests, more than before"
    # The collector itself moves a few hundred; a leak of one a request would be 100,000.
    yield Row(name, max(0, after - before), "objects", 1_000, 5_000, beside=beside)
    yield Row("objects that a full collection walks", after, "objects", None, 60_000)
    yield Row("lines logged, start and all these requests", lines, "lines", None, 50)
    is_traced = environ.get("OTEL_SDK_DISABLED") != "true"
    yield Row("requests are traced", float(is_traced), "", None, 0.0)


def soak_rows(bench: Bench, minutes: float) -> Iterator[Row]:
    """Ask at half load for some minutes, and watch the memory of a worker."""
    question = pairs_question(bench.fleet.keys)
    with bench.service() as service:
        most = load(service.url, question, 8, 2.0).per_second
        pause_ms = max(1, round(8 / (most / 2) * 1e3))
        load(service.url, question, 8, max(10.0, 6.0 * minutes), pause_ms)  # a tenth, to settle
        before = max(service.rss_mib())
        seen = load(service.url, question, 8, 60.0 * minutes, pause_ms)
        after = max(service.rss_mib())
    drift = after / before - 1
    beside = f"{before:.1f} to {after:.1f} MiB in {minutes:g} min at {seen.per_second:,.0f}/s"
    yield Row("RSS drift at half load", drift, "ratio", 0.03, 0.1, beside=beside)
    gc.collect()


def _settled_objects(bench: Bench, service: Served) -> int:
    """Return how many objects are alive once timers have run out and nothing is computed ahead."""
    counts = [-SETTLED, 0]
    while abs(counts[-1] - counts[-2]) >= SETTLED:
        time.sleep(SETTLE_S)
        counts.append(service.live_objects(bench.folder / "home"))
    return counts[-1]


def _move(registry: FolderRegistry, stop: threading.Event) -> None:
    while not stop.wait(3.0):
        registry.champion = 3 - registry.champion


def _swaps(page: bytes) -> float:
    lines = [line for line in page.decode().splitlines() if line.startswith("colocast_model_swaps")]
    return float(lines[0].rsplit(" ", 1)[1]) if lines else 0.0
