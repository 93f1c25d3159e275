"""Schedules of every policy on Philly, against what is to be reached; ``make bench-schedule``.

Reads the public sets from the folder that ``COLOCAST_PUBLIC_DATA`` names (with ``philly/`` and
``lucid/`` in it). ``COLOCAST_BENCH_LOADS`` and ``COLOCAST_BENCH_SEEDS`` choose others than the
offered load 0.9 and the seed 0, such as ``0.5,0.7,0.9,1.1`` and ``0,1,2``.
"""

import argparse
import json
import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from data.importers import lucid, philly
from pipelines.replaying.metrics import oracle_gain_share, worst_against
from pipelines.replaying.models import other_half
from pipelines.replaying.report import Result, headline, replayed
from pipelines.replaying.run import Replay
from pipelines.replaying.trace import burst_of, site_for_load, trace_of
from pipelines.replaying.workloads import draw, share_scores, workloads_of
from scheduler_client.replay.simulation import Costs

POLICIES = (
    "fifo_fixed", "fifo_pooled", "fifo_shared", "fair_share", "sjf_oracle", "qssf", "tiresias",
    "lucid", "colocate", "colocate_frozen", "colocate_gentle", "colocate_oracle",
)  # fmt: skip
FULL_LOAD = 0.9
"""Where every policy is compared; at other loads, those that a target speaks of."""

FEW_POLICIES = ("fifo_fixed", "fifo_pooled", "sjf_oracle", "colocate", "colocate_oracle")
BURST_POLICIES = ("fifo_fixed", "fifo_pooled", "sjf_oracle", "colocate", "colocate_oracle")
BUSIEST_WEEK = 7
"""Of Philly, by GPU time that arrives."""


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table; `holds` is None where nothing is to be reached."""

    what: str
    value: float
    unit: str
    target: float | None
    holds: bool | None
    command: str


def main() -> None:
    """Run the replays, print them and the table, write the rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, required=True)
    path = parser.parse_args().json
    folder = os.environ.get("COLOCAST_PUBLIC_DATA")
    if not folder:
        sys.exit("COLOCAST_PUBLIC_DATA must name a folder with philly/ and lucid/")
    loads = _numbers("COLOCAST_BENCH_LOADS", "0.9")
    seeds = [int(seed) for seed in _numbers("COLOCAST_BENCH_SEEDS", "0")]
    rows = [row for seed in seeds for row in _rows_of_seed(Path(folder), loads, seed)]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps([vars_of(row) for row in rows], indent=2) + "\n")
    for row in rows:
        target = "" if row.target is None else f"target {row.target:g}: {row.holds}"
        print(f"{row.what:<78} {row.value:>14,.3f} {row.unit:<6} {target}")


def vars_of(row: Row) -> dict[str, object]:
    """Return a row as the JSON wants it."""
    names = ("what", "value", "unit", "target", "holds", "command")
    return {name: getattr(row, name) for name in names}


def _numbers(name: str, default: str) -> list[float]:
    return [float(text) for text in os.environ.get(name, default).split(",")]


def _rows_of_seed(folder: Path, loads: list[float], seed: int) -> list[Row]:
    runs = lucid.read(folder / "lucid")["profiling_runs"]
    workloads = workloads_of(runs, seed)
    trace = draw(trace_of(philly.read(folder / "philly")["jobs"]), workloads, seed)
    beliefs = other_half(workloads, seed)
    scores = share_scores(workloads, folder / "lucid")
    rows = []
    for load in loads:
        site = site_for_load(trace, load, Costs())
        note = f"load {load:g}, seed {seed}"
        names = POLICIES if load == FULL_LOAD else FEW_POLICIES
        results = _results(Replay(trace, site, workloads, beliefs, scores), names, note)
        rows += _rows(results, load, seed)
    if len(loads) > 1:  # the whole table: high load as well
        week = burst_of(trace, BUSIEST_WEEK)
        site = site_for_load(trace, loads[-1], Costs())
        burst = Replay(week, site, workloads, beliefs, scores)
        rows += _burst_rows(_results(burst, BURST_POLICIES, f"burst, seed {seed}"), seed)
    return rows


def _results(replay: Replay, names: Iterable[str], note: str) -> dict[str, Result]:
    results = {}
    for name in names:
        results[name] = replayed(replay, name)
        print(f"[{note}, {replay.site.cards} GPUs] {headline(name, results[name].metrics)}")
        sys.stdout.flush()
    return results


def _rows(results: Mapping[str, Result], load: float, seed: int) -> list[Row]:
    found = {name: result.metrics for name, result in results.items()}
    base = f"colocast replay --trace philly --pairs lucid --load {load:g} --seed {seed}"
    note = f"load {load:g}, seed {seed}: "

    def row(what: str, value: float, target: float | None, unit: str = "ratio") -> Row:
        holds = None if target is None else bool(value <= target)
        return Row(note + what, float(value), unit, target, holds, base)

    def ratio(metric: str, policy: str, other: str) -> float:
        return found[policy][metric] / max(found[other][metric], 1e-9)

    rows = []
    for ours in (name for name in OURS if name in found):
        goals = [
            ("mean_queueing_delay_s", "fifo_fixed", 0.05),
            ("p999_queueing_delay_s", "fifo_fixed", 0.1),
            ("p999_queueing_delay_s", "fifo_pooled", 0.5 if load in (0.7, 0.9) else None),
            ("makespan_s", "fifo_fixed", 0.75),
            ("mean_jct_s", "sjf_oracle", 0.6 if load == FULL_LOAD else None),
        ]
        if load == FULL_LOAD:
            goals += [("mean_jct_s", "tiresias", 1 / 1.8), ("mean_jct_s", "lucid", 1 / 1.2)]
        rows += [row(f"{ours}: {m} / {o}", ratio(m, ours, o), goal) for m, o, goal in goals]
        worst = worst_against(results[ours].outcome, results["fifo_fixed"].outcome)
        slowdown = found[ours]["mean_colocated_slowdown"]
        above = found[ours].get("above_tolerance_share", 0.0)
        rows += [
            row(f"{ours}: worst queue's mean JCT / its own fixed quota", worst, 1.02),
            row(f"{ours}: mean slowdown of colocated jobs", slowdown, 1.1),
            row(f"{ours}: share of colocations above their tolerance", above, 0.05),
            row(f"{ours}: one replay", found[ours]["replay_s"], 120.0, "s"),
        ]
        points = found[ours]["utilisation"] - found["fifo_fixed"]["utilisation"]
        least = 0.2 if load == 1.1 else None
        holds = None if least is None else bool(points >= least)
        what = f"{note}{ours}: utilisation over fixed quotas"
        rows.append(Row(what, points, "points", least, holds, base))
    jct = {name: metrics["mean_jct_s"] for name, metrics in found.items()}
    for trivial in (name for name in ("fifo_pooled", "fair_share") if name in found):
        share = oracle_gain_share(jct, trivial, "colocate", "colocate_oracle")
        what = f"{note}share of the oracle's gain in mean JCT over {trivial}"
        rows.append(Row(what, share, "ratio", 0.95, bool(share >= 0.95), base))
    # Nothing can end before the last job to arrive does: no policy's makespan is below this.
    ends = (
        results["colocate"].outcome.trace.arrival_s + results["colocate"].outcome.trace.runtime_s
    ).max()
    rows.append(
        row(
            "least makespan there can be / fifo_fixed",
            ends / found["fifo_fixed"]["makespan_s"],
            None,
        )
    )
    for name, metrics in found.items():
        rows += [row(f"{name}: {metric}", metrics[metric], None, "s") for metric in _SHOWN]
    return rows


OURS = ("colocate", "colocate_frozen", "colocate_gentle", "colocate_oracle")
_SHOWN = ("mean_queueing_delay_s", "p999_queueing_delay_s", "mean_jct_s", "makespan_s")


def _burst_rows(results: Mapping[str, Result], seed: int) -> list[Row]:
    base = f"colocast replay --trace philly --pairs lucid --burst {BUSIEST_WEEK} --seed {seed}"
    rows = []
    longest_s = results["colocate"].outcome.trace.runtime_s.max()
    for other in ("fifo_fixed", "fifo_pooled", "sjf_oracle"):
        value = longest_s / results[other].metrics["makespan_s"]
        what = f"one week at once, seed {seed}: its longest job alone / makespan of {other}"
        rows.append(Row(what, float(value), "ratio", None, None, base))
    for ours in ("colocate", "colocate_oracle"):
        for other in ("fifo_fixed", "fifo_pooled", "sjf_oracle"):
            value = results[ours].metrics["makespan_s"] / results[other].metrics["makespan_s"]
            what = f"one week at once, seed {seed}: {ours}: makespan / {other}"
            rows.append(Row(what, float(value), "ratio", 0.62, bool(value <= 0.62), base))
    return rows


if __name__ == "__main__":
    main()
