"""Schedules of every policy on Philly, against what is to be reached; ``make bench-schedule``.

Reads the public sets from the folder that ``COLOCAST_PUBLIC_DATA`` names (with ``philly/`` and
``lucid/`` in it). By default offered load 0.9 and seed 0, in a few minutes;
``COLOCAST_BENCH_LOADS`` and ``COLOCAST_BENCH_SEEDS`` name others. The whole table, with one week
submitted at once: ``COLOCAST_BENCH_LOADS=0.5,0.7,0.9,1.1 COLOCAST_BENCH_SEEDS=0,1,2``.
``COLOCAST_BENCH_EVENTS`` names a folder for the event logs of ``colocate``, which are checked.
"""

import argparse
import json
import os
import sys
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.schedule_rows import FULL_LOAD, Row, over_seeds, rows_of_burst, rows_of_load
from data.importers import lucid, philly
from data.tables import read_frame
from pipelines.replaying.check import checked_log
from pipelines.replaying.models import Beliefs, other_half
from pipelines.replaying.result import Result, headline, replayed
from pipelines.replaying.run import Replay
from pipelines.replaying.trace import burst_of, site_for_load, trace_of
from pipelines.replaying.workloads import Workloads, draw, share_scores, workloads_of
from scheduler_client.replay.simulation import Costs
from scheduler_client.replay.trace import Trace

FEW = ("fifo_fixed", "fifo_pooled", "sjf_oracle", "colocate", "colocate_oracle")
"""Policies at loads at which no target speaks of the others."""

SEVERAL = (*FEW, "fair_share", "tiresias", "lucid")
ALL = (*SEVERAL, "fifo_shared", "srpt_oracle", "qssf", "colocate_frozen", "colocate_gentle")
BUSIEST_WEEK = 7
"""Of Philly, by GPU time that arrives."""


@dataclass(frozen=True, slots=True)
class Inputs:
    """What the replays of one seed share."""

    trace: Trace
    workloads: Workloads
    beliefs: Beliefs
    scores: tuple[int, ...]

    def replay(self, load: float, burst: int | None = None) -> Replay:
        """Return the replay on the cluster of an offered load."""
        site = site_for_load(self.trace, load, Costs())
        trace = self.trace if burst is None else burst_of(self.trace, burst)
        return Replay(trace, site, self.workloads, self.beliefs, self.scores)


def main() -> None:
    """Run the replays, print them and the table, write the rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, required=True)
    path = parser.parse_args().json
    folder = os.environ.get("COLOCAST_PUBLIC_DATA")
    if not folder:
        sys.exit("COLOCAST_PUBLIC_DATA must name a folder with philly/ and lucid/")
    loads = _numbers("COLOCAST_BENCH_LOADS", f"{FULL_LOAD}")
    seeds = [int(seed) for seed in _numbers("COLOCAST_BENCH_SEEDS", "0")]
    by_seed = {seed: _rows_of_seed(Path(folder), loads, seed) for seed in seeds}
    rows = list(over_seeds(by_seed)) if len(seeds) > 1 else by_seed[seeds[0]]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps([asdict(row) for row in rows], indent=2) + "\n")
    for row in rows:
        target = "" if row.target is None else f"target {row.target:g}: {row.holds}"
        print(f"{row.what:<88} {row.value:>14,.3f} {row.unit:<6} {target}")


def _numbers(name: str, default: str) -> list[float]:
    return [float(text) for text in os.environ.get(name, default).split(",")]


def inputs_of(folder: Path, seed: int) -> Inputs:
    """Read the public sets, draw workloads, and train on the half that is not scheduled."""
    workloads = workloads_of(lucid.read(folder / "lucid")["profiling_runs"], seed)
    jobs = philly.read(folder / "philly")["jobs"]
    return Inputs(
        trace=draw(trace_of(jobs), workloads, seed),
        workloads=workloads,
        beliefs=other_half(workloads, seed),
        scores=share_scores(workloads, folder / "lucid"),
    )


def _rows_of_seed(folder: Path, loads: list[float], seed: int) -> list[Row]:
    inputs = inputs_of(folder, seed)
    command = "colocast replay --trace philly --pairs lucid"
    rows = []
    for load in loads:
        names = FEW if load != FULL_LOAD else ALL if seed == 0 else SEVERAL
        results = _results(inputs.replay(load), names, f"load {load:g}, seed {seed}")
        found = rows_of_load(results, load, f"{command} --load {load:g} --seed {seed}")
        rows += _titled(f"load {load:g}", found)
    if len(loads) > 1:  # the whole table: high load as well
        week = inputs.replay(loads[-1], BUSIEST_WEEK)
        results = _results(week, FEW, f"one week at once, seed {seed}")
        burst = f"{command} --load {loads[-1]:g} --burst {BUSIEST_WEEK} --seed {seed}"
        rows += _titled("one week at once", rows_of_burst(results, burst))
    return rows


def _titled(title: str, rows: list[Row]) -> list[Row]:
    return [Row(f"{title}: {r.what}", r.value, r.unit, r.target, r.holds, r.command) for r in rows]


def _results(replay: Replay, names: Iterable[str], note: str) -> dict[str, Result]:
    folder = os.environ.get("COLOCAST_BENCH_EVENTS")
    results = {}
    for name in names:
        keeps = folder is not None and name == "colocate"
        events = Path(folder or ".") / f"{note.replace(', ', '-')}.parquet" if keeps else None
        results[name] = replayed(replay, name, events)
        held = "" if events is None else f"; {_verdict(events)}"
        print(f"[{note}, {replay.site.cards} GPUs] {headline(name, results[name].metrics)}{held}")
        sys.stdout.flush()
    return results


def _verdict(events: Path) -> str:
    faults = checked_log(read_frame(events)).faults
    return f"{len(faults)} faults" if faults else "the log holds"


if __name__ == "__main__":
    main()
