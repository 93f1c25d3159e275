"""Latency of the service beside a bare application on the same core, by wrk; rows/s too."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

from benchmarks.serving_bench import MANY_KEYS, Bench
from benchmarks.serving_questions import (
    binary_question,
    fresh_placements_question,
    pairs_question,
    placements_question,
)
from benchmarks.serving_row import Row
from benchmarks.serving_wrk import Load, Question, load


@dataclass(frozen=True, slots=True)
class Limits:
    """Target and regression bound of the ratios at p50 and p99."""

    p50: float | None
    p99: float
    p50_bound: float | None
    p99_bound: float


JSON_LIMITS = Limits(1.8, 2.0, 2.5, 4.0)
BINARY_LIMITS = Limits(1.4, 1.4, 2.2, 4.0)
PLACEMENT_LIMITS = Limits(None, 1.3, 1.6, 4.0)


def latency_rows(bench: Bench) -> Iterator[Row]:
    """Measure service and bare application in turn, and yield their ratios.

    With one worker each, on the core that `wrk` leaves alone; then with two, on both cores, beside
    `wrk`.
    """
    for workers in (1, 2):
        with ExitStack() as stack:
            servers = bench.service(workers), bench.bare(workers=workers)
            pair = tuple(stack.enter_context(each).url for each in servers)
            yield from _asked(bench, pair, "" if workers == 1 else ", two workers")
    with ExitStack() as stack:
        many = bench.service(champion=3), bench.bare(version=3)
        pair = tuple(stack.enter_context(each).url for each in many)
        ours, bare = in_turn(bench, pair, fresh_placements_question(MANY_KEYS), 1)
        name = "placements, pairs never asked before"
        yield Row(f"{name}: p50", ours.p50_ms, "ms", beside=_beside(ours, bare))


def _asked(bench: Bench, pair: tuple[str, ...], which: str) -> Iterator[Row]:
    keys = bench.fleet.keys
    ours, bare = in_turn(bench, pair, placements_question(keys), 1)
    name = f"placements, 1 job x 1,000 occupied cards{which}"
    yield Row(f"{name}: p99", ours.p99_ms, "ms", 10.0, beside=_beside(ours, bare))
    yield from _ratios(name, ours, bare, PLACEMENT_LIMITS)
    for connections in (1, 16):
        ours, bare = in_turn(bench, pair, pairs_question(keys), connections)
        name = f"one pair, JSON, {connections} connection(s){which}"
        yield from _ratios(name, ours, bare, JSON_LIMITS)
        ours, bare = in_turn(bench, pair, binary_question(keys), connections)
        name = f"one pair, binary, {connections} connection(s){which}"
        yield from _ratios(name, ours, bare, BINARY_LIMITS)


def in_turn(
    bench: Bench, urls: tuple[str, ...], question: Question, connections: int
) -> tuple[Load, Load]:
    """Return the best round of each of two servers that are asked the same in turn."""
    seen: list[list[Load]] = [[], []]
    for url in urls:  # once for nothing: what is computed on the first question is not measured
        load(url, question, connections, 1.0)
    for _ in range(bench.rounds):
        for at, url in enumerate(urls):
            seen[at].append(load(url, question, connections, bench.seconds))
    for found in (*seen[0], *seen[1]):
        if found.failed:
            raise RuntimeError(
                f"found {found.failed} failed requests, wanted none: {question.path}"
            )
    ours, bare = (_best(loads) for loads in seen)
    return ours, bare


def _best(loads: list[Load]) -> Load:
    """Return the lowest of each percentile: other work on the machine only adds."""
    quickest = max(loads, key=lambda each: each.per_second)
    return Load(
        min(each.p50_ms for each in loads),
        min(each.p99_ms for each in loads),
        min(each.max_ms for each in loads),
        quickest.requests,
        0,
        quickest.seconds,
    )


def _ratios(name: str, ours: Load, bare: Load, limits: Limits) -> Iterator[Row]:
    beside = _beside(ours, bare)
    at_p50, at_p99 = ours.p50_ms / bare.p50_ms, ours.p99_ms / bare.p99_ms
    yield Row(f"{name}: p50 / bare", at_p50, "ratio", limits.p50, limits.p50_bound, beside=beside)
    yield Row(f"{name}: p99 / bare", at_p99, "ratio", limits.p99, limits.p99_bound, beside=beside)


def _beside(ours: Load, bare: Load) -> str:
    return (
        f"p50 {ours.p50_ms:.3f} ({bare.p50_ms:.3f}) ms, p99 {ours.p99_ms:.3f} ({bare.p99_ms:.3f}) "
        f"ms, {ours.per_second:,.0f} ({bare.per_second:,.0f}) requests/s; in brackets: bare"
    )
