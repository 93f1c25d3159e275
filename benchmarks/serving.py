"""How fast the service answers, against targets and a bare application; ``make bench-serving``.

Trains a sample model, starts the real service beside a bare ASGI application, and loads both with
``wrk``. Ends with status 1 and names the row where one is beyond its bound: then a known cause of
cost has come back (timers, tracing, the access log, garbage collection over the import heap).
A row that misses its target within the bound is reported and does not fail.
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from benchmarks.serving_bench import Bench, made
from benchmarks.serving_in_process import (
    forest_rows,
    memory_rows,
    pair_rows,
    placement_rows,
)
from benchmarks.serving_latency import latency_rows
from benchmarks.serving_process_rows import (
    object_rows,
    soak_rows,
    start_rows,
    swap_rows,
    throughput_rows,
)
from benchmarks.serving_row import Row, skipped
from benchmarks.serving_wrk import ABSENT, is_installed

PARTS: Mapping[str, Callable[[Bench], Iterable[Row]]] = {
    "forest": forest_rows,
    "memory": memory_rows,
    "pairs": pair_rows,
    "computing": placement_rows,
    "latency": latency_rows,
    "throughput": throughput_rows,
    "start": start_rows,
    "swap": swap_rows,
    "objects": object_rows,
}
WITHOUT_WRK = ("forest", "memory", "pairs", "computing")
SOAK_MINUTES, SHORT_SOAK_MINUTES = 30.0, 0.5


def main() -> None:
    """Measure, print each row as soon as it is known, write all of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument("--only", choices=[*PARTS, "soak"], action="append")
    parser.add_argument("--models", type=Path, default=Path("build/bench/serving-models"))
    parser.add_argument("--seconds", type=float, default=3.0, help="that one load lasts")
    parser.add_argument("--rounds", type=int, default=3, help="service and bare take turns")
    parser.add_argument(
        "--soak",
        type=float,
        nargs="?",
        const=SOAK_MINUTES,
        default=SHORT_SOAK_MINUTES,
        help="minutes at half load; without a number 30",
    )
    given = parser.parse_args()
    parts = dict(PARTS) | {"soak": lambda bench: soak_rows(bench, given.soak)}
    rows = []
    with made(given.models, given.seconds, given.rounds) as bench:
        for name in given.only or parts:
            for row in _measured(name, parts[name], bench):
                rows.append(row)
                print(row.line(), flush=True)
    given.json.parent.mkdir(parents=True, exist_ok=True)
    given.json.write_text(json.dumps([row.facts() for row in rows], indent=2) + "\n")
    regressed = [row.name for row in rows if row.has_regressed]
    if regressed:
        sys.exit(f"beyond its bound: {'; '.join(regressed)}")


def _measured(name: str, part: Callable[[Bench], Iterable[Row]], bench: Bench) -> Iterable[Row]:
    if name not in WITHOUT_WRK and not is_installed():
        return [skipped(name, ABSENT)]
    return part(bench)


if __name__ == "__main__":
    main()
