"""Runtime on DRAC and Philly: refitted daily by finish time, settings chosen on earlier jobs."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import pandas as pd

from benchmarks.quality_row import Row, at_least, plain
from data.importers import philly, slurm
from features.history_groups import HISTORY_GROUPS
from pipelines.runtime.evaluate import AT_START, CLUSTER_MODEL, evaluate_runtime

SEED = 7
REACH_R2, REACH_WITHIN, REACH_GAIN = 0.45, 0.60, 0.97
REACH_COVERAGE, REACH_WORST = 0.88, 0.80
EVALUATE = "colocast evaluate runtime --jobs {path} --from {day}"

LOGS = {"DRAC": ("drac-slurm", "2021-05-24"), "Philly": ("philly", "2017-12-01")}
"""Folder, and the first day that is measured: kernels and trees were chosen on earlier days of
DRAC; nothing was chosen on Philly."""

Found = Mapping[str, Mapping[str, str | float | int | None]]


def runtime_quality(folder: Path) -> Iterator[Row]:
    """Yield every row about runtimes."""
    readers = {"DRAC": slurm.read, "Philly": philly.read}
    for log, (name, day) in LOGS.items():
        jobs = readers[log](folder / name)["jobs"]
        moment = pd.Timestamp(day, tz="UTC").timestamp()
        found = {str(row["split"]): row for row in evaluate_runtime(jobs, moment, seed=SEED)}
        command = EVALUATE.format(path=f"{name}/...", day=day)
        yield from _rows(log, found, command)
        if log == "DRAC":
            yield from _layers(log, found, command)


def _rows(log: str, found: Found, command: str) -> Iterator[Row]:
    for split in ("all", "gpu", f"all{AT_START}", f"gpu{AT_START}"):
        if split not in found:
            continue
        what = f"runtime, {log}, {_said(split)}"
        row = found[split]
        yield at_least(f"{what}, log", _number(row, "r2_log"), REACH_R2, command)
        yield at_least(f"{what}, within 2x", _number(row, "within_2x"), REACH_WITHIN, command, "")
        yield at_least(
            f"{what}, coverage", _number(row, "coverage_90"), REACH_COVERAGE, command, ""
        )
        worst = f"{what}, coverage that nine tenths of users and queues reach"
        yield at_least(worst, _number(row, "coverage_90_worst"), REACH_WORST, command, "")
        yield plain(f"{what}, best baseline, log", _number(row, "baseline_r2"), "R²", command)
    gain = f"runtime, {log}, share of the oracle's gain in a shortest-first replay"
    yield at_least(gain, _number(found["gpu"], "oracle_gain"), REACH_GAIN, command, "")


def _layers(log: str, found: Found, command: str) -> Iterator[Row]:
    for jobs in ("", "gpu_"):
        for group in HISTORY_GROUPS:
            split = f"{jobs}jobs_{group}"
            for layer in (split, f"{split}/{CLUSTER_MODEL}"):
                if layer in found:
                    what = f"runtime, {log}, at submission, {layer}"
                    row = found[layer]
                    yield plain(f"{what}, log", _number(row, "r2_log"), "R²", command)
                    yield plain(f"{what}, within 2x", _number(row, "within_2x"), "", command)


def _said(split: str) -> str:
    name, at, _ = split.partition(AT_START)
    moment = "at the start" if at else "at submission"
    return f"{'GPU jobs' if name == 'gpu' else 'all jobs'} {moment}"


def _number(row: Mapping[str, object], name: str) -> float:
    value = row[name]
    return float(value) if isinstance(value, (int, float)) else float("nan")
