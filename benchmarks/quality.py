"""What predictions are worth on data that was held out; ``make bench-quality``.

Reads the public sets from the folder that ``COLOCAST_PUBLIC_DATA`` names. Rows of one model come
from one function, listed in ``MODELS``; ``--only`` takes some of them.
"""

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from time import process_time

from benchmarks.quality_interference import interference_quality
from benchmarks.quality_row import HEADER, Row, row_facts, row_text
from benchmarks.quality_runtime import runtime_quality
from benchmarks.quality_structure import demand_quality, memory_quality

MODELS: Mapping[str, Callable[[Path], Iterable[Row]]] = {
    "interference": interference_quality,  # the longest first
    "runtime": runtime_quality,
    "memory": memory_quality,
    "demand": demand_quality,
}


ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")
PROCESSES = 2  # a model each: on two cores, half the time


def main() -> None:
    """Measure, print each row as soon as it is known, write all of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument("--only", choices=sorted(MODELS), action="append")
    given = parser.parse_args()
    folder = os.environ.get("COLOCAST_PUBLIC_DATA")
    if not folder:
        sys.exit("COLOCAST_PUBLIC_DATA must name the folder with the public sets")
    names = given.only or list(MODELS)
    for variable in ONE_THREAD:  # threads of two processes on two cores wait for each other
        os.environ.setdefault(variable, "1")
    sys.stdout.write(f"{HEADER}\n")
    sys.stdout.flush()
    with ProcessPoolExecutor(PROCESSES, mp_context=get_context("spawn")) as pool:
        parts = list(pool.map(printed_rows, names, [Path(folder)] * len(names)))
    rows = [row for part in parts for row in part]
    given.json.parent.mkdir(parents=True, exist_ok=True)
    given.json.write_text(json.dumps([row_facts(row) for row in rows], indent=2) + "\n")
    aimed = [row for row in rows if row.target is not None]
    sys.stdout.write(f"{sum(bool(row.holds) for row in aimed)} of {len(aimed)} goals reached\n")


def printed_rows(name: str, folder: Path) -> list[Row]:
    """Return a model's rows; each is printed as soon as it is known, and then what they took."""
    rows = []
    for row in MODELS[name](folder):
        rows.append(row)
        sys.stdout.write(f"{row_text(row)}\n")
        sys.stdout.flush()
    sys.stdout.write(f"{process_time():9.0f} s of processor time for {name}\n")
    sys.stdout.flush()
    return rows


if __name__ == "__main__":
    main()
