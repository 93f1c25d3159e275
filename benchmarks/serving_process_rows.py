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
from benchmarks.serving_wrk import Load, load

STARTS = 3
STEADY_PAUSE_MS, STEADY_CONNECTIONS = 19, 4  # about 200 requests/s
SETTLE_S = 3.0  # more than BentoML keeps a request's timer
MANY_REQUESTS = 100_000
SETTLED = 200  # objects; fewer come and go with the threads that follow registry and job log


def start_rows(bench: Bench) -> Iterator[Row]:
    """Start on a warm cache a few times; read the memory of a worker that has answered."""
    ready_s, floor_s, cpu_s, rss_mib = [], [], [], []
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
            with bench.empty() as empty:
                floor_s.append(empty.ready_s)
    starts = ", ".join(f"{each:.2f}" for each in ready_s)
    yield Row("start to ready, warm cache", min(ready_s), "s", 3.0, beside=f"of {starts}")
    floors = ", ".join(f"{each:.2f}" for each in floor_s)
    yield Row("start of an empty BentoML service", min(floor_s), "s", None, beside=f"of {floors}")
    # By the clock a busy machine would fail it; what is imported shows here.
    yield Row("start to ready, warm cache: computing", min(cpu_s), "s", None, 6.0)
    yield Row("RSS of a worker", max(rss_mib), "MiB", 300.0 * 1e6 / 2**20, 420.0)


def throughput_rows(bench: Bench) -> Iterator[Row]:
    """Ask two workers for 1,024 pairs at a time, and compare with the forest alone.

    By what the workers compute: on a machine that others use, the clock measures the others.
    """
    alone = forest_rate(bench)
    questions = {
        "new": (fresh_pairs_question(MANY_KEYS), 3),
        "known": (pairs_question(bench.fleet.keys, BATCH), 1),
    }
    for kind, (question, champion) in questions.items():
        with bench.service(workers=2, champion=champion) as service:
            _settled_objects(bench, service)
            load(service.url, question, 4, 1.0)
            before = service.computed_s()
            found = load(service.url, question, 4, bench.seconds * bench.rounds)
            rows, computed_s = found.requests * BATCH, service.computed_s() - before
        rate = rows / computed_s
        beside = (
            f"{rate:,.0f} of {alone:,.0f} rows per second of computing; "
            f"{rows / found.seconds:,.0f} rows/s by the clock, 2 workers"
        )
        name = f"rows through HTTP, 1,024 {kind} pairs at once / forest alone"
        yield Row(name, rate / alone, "ratio", 0.7, 0.25, at_least=True, beside=beside)


def swap_rows(bench: Bench) -> Iterator[Row]:
    """Move the alias back and forth under 200 requests/s."""
    question = pairs_question(bench.fleet.keys)
    with FolderRegistry(*bench.versions) as registry, bench.start(registry, 2) as service:

        def steady(seconds: float) -> Load:
            return load(service.url, question, STEADY_CONNECTIONS, seconds, STEADY_PAUSE_MS)

        for number in (2, 1):  # both are prepared once, as they would be on any machine
            _move(registry, service, number)
        steady(2)
        still = steady(3 * bench.seconds)
        before, stop = _swaps(service), threading.Event()
        mover = threading.Thread(target=_keep_moving, args=(registry, service, stop))
        mover.start()
        moving = steady(6 * bench.seconds)
        stop.set()
        mover.join()
        swaps = _swaps(service) - before
    failed = still.failed + moving.failed
    beside = f"of {still.requests + moving.requests} requests"
    yield Row("swap under 200 requests/s: failed", failed, "", 0, 0, beside=beside)
    yield Row("swap under 200 requests/s: swaps seen", swaps, "", 1, 1, at_least=True)
    beside = f"{moving.p99_ms:.2f} ({still.p99_ms:.2f}) ms, longest {moving.max_ms:.1f} ms"
    name = "swap under 200 requests/s: p99 during / before"
    yield Row(name, moving.p99_ms / still.p99_ms, "ratio", 2.0, 40.0, beside=beside)


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
        lines = service.lines_logged()
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


def _keep_moving(registry: FolderRegistry, service: Served, stop: threading.Event) -> None:
    while not stop.is_set():
        _move(registry, service, 3 - registry.champion)
        stop.wait(0.5)


def _move(registry: FolderRegistry, service: Served, number: int) -> None:
    """Move the alias, and wait until the new version was seen to answer."""
    registry.champion = number
    wanted = f'"version":"{number}"'.encode()
    for _ in range(6000):
        if wanted in service.ask("/v1/models"):
            return
        time.sleep(0.05)
    raise RuntimeError(f"version {number} does not serve")


def _swaps(service: Served) -> float:
    """Return how many versions were replaced since the start, in the worker with the most."""
    lines = service.ask("/metrics").decode().splitlines()
    found = [line for line in lines if line.startswith("colocast_model_swaps")]
    return max((float(line.rsplit(" ", 1)[1]) for line in found), default=0.0)
