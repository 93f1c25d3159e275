"""What predictions are worth on data that was held out; ``make bench-quality``.

Reads the public sets from the folder that ``COLOCAST_PUBLIC_DATA`` names. Rows of one model come
from one function, listed in ``MODELS``; ``--only`` takes some of them.
"""

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from benchmarks.quality_interference import interference_quality
from benchmarks.quality_row import HEADER, Row, row_facts, row_text
from benchmarks.quality_runtime import runtime_quality
from benchmarks.quality_structure import demand_quality, memory_quality

MODELS: Mapping[str, Callable[[Path], Iterable[Row]]] = {
    "interference": interference_quality,
    "runtime": runtime_quality,
    "memory": memory_quality,
    "demand": demand_quality,
}


def main() -> None:
    """Measure, print each row as soon as it is known, write all of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument("--only", choices=sorted(MODELS), action="append")
    given = parser.parse_args()
    folder = os.environ.get("COLOCAST_PUBLIC_DATA")
    if not folder:
        sys.exit("COLOCAST_PUBLIC_DATA must name the folder with the public sets")
    sys.stdout.write(f"{HEADER}\n")
    rows = []
    for name in given.only or MODELS:
        for row in MODELS[name](Path(folder)):
            rows.append(row)
            sys.stdout.write(f"{row_text(row)}\n")
            sys.stdout.flush()
    given.json.parent.mkdir(parents=True, exist_ok=True)
    given.json.write_text(json.dumps([row_facts(row) for row in rows], indent=2) + "\n")


if __name__ == "__main__":
    main()
