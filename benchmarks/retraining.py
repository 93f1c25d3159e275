"""Training all five models on a large site's log: time and memory; ``make bench-retraining``.

Reads the public sets from the folder that ``COLOCAST_PUBLIC_DATA`` names (``drac-slurm``,
``lucid`` and ``gpumemnet`` in it). They are smaller than the log of a large site, so they are
repeated: jobs by the length of the whole log later, with users of their own; job keys ten times
under other names, and colocated runs drawn among those, with the slowdown that was measured for the
two workloads and 2 % of noise. So only time and memory are measured here, never quality. Each model
is made in a process of its own from files, by the recipe that training and retraining share,
reports and pictures included.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from data.importers import gpumemnet, lucid, slurm
from data.schemas import PROFILING_RUNS, checked
from data.tables import read_frame, write_frame
from pipelines.recipes import made

JOBS, PAIRS = 1_000_000, 100_000
COPIES = 10
NOISE_SD = 0.02
REACH_S, REACH_GB = 600.0, 6.0
TABLES = {
    "interference": "profiling_runs",
    "runtime": "jobs",
    "memory": "memory_runs",
    "demand": "memory_runs",
}
COMMAND = "make bench-retraining"


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table; `holds` is None where nothing is to be reached."""

    what: str
    value: float
    unit: str
    target: float | None = None
    holds: bool | None = None
    command: str = COMMAND


def main() -> None:
    """Make each model, print the rows and write them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument("--jobs", type=int, default=JOBS)
    parser.add_argument("--pairs", type=int, default=PAIRS, help="colocated pairs of runs")
    parser.add_argument("--only", choices=sorted(TABLES), action="append")
    given = parser.parse_args()
    folder = os.environ.get("COLOCAST_PUBLIC_DATA")
    if not folder:
        sys.exit("COLOCAST_PUBLIC_DATA must name a folder with drac-slurm/, lucid/ and gpumemnet/")
    rows = []
    with tempfile.TemporaryDirectory(prefix="colocast-bench-") as temporary:
        for recipe in given.only or TABLES:
            path = Path(temporary) / f"{recipe}.parquet"
            write_frame(_table(recipe, Path(folder), given.jobs, given.pairs), path)
            rows += _shown(_made_apart(recipe, path))
    if given.only is None:
        seconds = sum(row.value for row in rows if row.unit == "s")
        memory = max(row.value for row in rows if row.unit == "GB")
        rows += _shown([
            Row("all models, one after the other", seconds, "s", REACH_S, seconds <= REACH_S),
            Row("most memory of any", memory, "GB", REACH_GB, memory <= REACH_GB),
        ])  # fmt: skip
    given.json.parent.mkdir(parents=True, exist_ok=True)
    given.json.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")


def _shown(rows: list[Row]) -> list[Row]:
    for row in rows:
        target = "" if row.target is None else f"target {row.target:g}: {row.holds}"
        print(f"{row.what:<60} {row.value:>10.1f} {row.unit:<3} {target}", flush=True)
    return rows


def _made_apart(recipe: str, path: Path) -> list[Row]:
    """Make a model in a process of its own, and return what it took."""
    program = f"from benchmarks.retraining import report; report({recipe!r}, {str(path)!r})"
    said = subprocess.run(
        [sys.executable, "-c", program], check=True, stdout=subprocess.PIPE, text=True
    )
    return [Row(**row) for row in json.loads(said.stdout.splitlines()[-1])]


def report(recipe: str, path: str) -> None:
    """Make a model from a table, and print what it took as JSON."""
    table = read_frame(Path(path))
    start = time.monotonic()
    made(recipe, {TABLES[recipe]: table}, 7)
    spent_s = time.monotonic() - start
    peak_gb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9
    what = f"{recipe}, {len(table):,} rows"
    print(json.dumps([asdict(Row(what, spent_s, "s")), asdict(Row(what, peak_gb, "GB"))]))


def _table(recipe: str, folder: Path, jobs: int, pairs: int) -> pd.DataFrame:
    if recipe == "runtime":
        return _many_jobs(slurm.read(folder / "drac-slurm")["jobs"], jobs)
    if recipe == "interference":
        return _many_runs(lucid.read(folder / "lucid")["profiling_runs"], pairs)
    return gpumemnet.read(folder / "gpumemnet")["memory_runs"]


def _many_jobs(log: pd.DataFrame, jobs: int) -> pd.DataFrame:
    span_s = float(log["finish_time"].max() - log["submit_time"].min())
    times = ["submit_time", "start_time", "finish_time"]
    copies = []
    for copy in range(-(-jobs // len(log))):
        ids = {name: log[name].astype("str") + f"#{copy}" for name in ("job_id", "user", "job_key")}
        moved = {name: log[name] + copy * span_s for name in times}
        copies.append(log.assign(**ids, **moved))
    return pd.concat(copies, ignore_index=True).head(jobs)


def _many_runs(runs: pd.DataFrame, pairs: int) -> pd.DataFrame:
    """Return the exclusive runs of all copies, and colocated ones drawn among them."""
    chance = np.random.default_rng(7)
    alone = runs[runs["neighbour_key"].isna()]
    beside = runs[runs["neighbour_key"].notna()]
    other = beside.set_index("run_id").loc[beside["neighbour_run_id"]].reset_index()
    drawn = chance.integers(0, len(beside), pairs)
    copy = chance.integers(0, COPIES, (2, pairs)).astype(str)
    frames = [_copied(alone, str(number)) for number in range(COPIES)]
    for side, mine, theirs in ((beside, 0, 1), (other, 1, 0)):
        rows = side.iloc[drawn].reset_index(drop=True)
        number = pd.Series(np.arange(pairs).astype(str))
        speed = rows["steps_per_s"] * np.exp(chance.normal(0, NOISE_SD, pairs))
        frames.append(
            rows.assign(
                run_id=number + f"/{mine}", neighbour_run_id=number + f"/{theirs}",
                job_key=rows["job_key"] + "#" + copy[mine],
                neighbour_key=rows["neighbour_key"] + "#" + copy[theirs],
                steps_per_s=speed,
            )
        )  # fmt: skip
    return checked(pd.concat(frames, ignore_index=True), PROFILING_RUNS, "repeated runs")


def _copied(alone: pd.DataFrame, copy: str) -> pd.DataFrame:
    return alone.assign(run_id=alone["run_id"] + "#" + copy, job_key=alone["job_key"] + "#" + copy)


if __name__ == "__main__":
    main()
