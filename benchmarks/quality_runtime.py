"""Runtime on DRAC and Philly: refitted daily by finish time, settings chosen on earlier jobs."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import pandas as pd

from benchmarks.quality_row import Row, at_least, interval_rows, number, plain
from data.importers import philly, slurm
from features.history_groups import HISTORY_GROUPS
from pipelines.runtime.baselines import BASELINES
from pipelines.runtime.evaluate import AFTER_AN_HOUR, AT_START, CLUSTER_MODEL, evaluate_runtime

SEED = 7
REACH_R2, REACH_WITHIN, REACH_GAIN = 0.45, 0.60, 0.97
EVALUATE = "colocast evaluate runtime --jobs {path} --from {day}"

LOGS = {"DRAC": ("drac-slurm", "2021-05-24"), "Philly": ("philly", "2017-12-01")}
"""Folder, and the first day that is measured: kernels and trees were chosen on earlier days of
DRAC; nothing was chosen on Philly."""

MOMENTS = {"": "at submission", AT_START: "at the start", AFTER_AN_HOUR: "after an hour"}

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
    for moment in MOMENTS:
        for split in (f"all{moment}", f"gpu{moment}"):
            if split not in found:
                continue
            what, row = f"runtime, {log}, {_said(split)}", found[split]
            r2, r2_best = number(row, "r2_log"), number(row, "baseline_r2")
            yield at_least(plain(f"{what}, log", r2, "R²", command, r2_best), REACH_R2)
            within, within_best = number(row, "within_2x"), _trivially(found, split, "within_2x")
            twice = plain(f"{what}, within 2x", within, "share", command, within_best)
            yield at_least(twice, REACH_WITHIN)
            yield from interval_rows(what, row, command)
    gain = f"runtime, {log}, share of the oracle's gain in a shortest-first replay"
    reached, trivially = (
        number(found["gpu"], "oracle_gain"),
        _trivially(found, "gpu", "oracle_gain"),
    )
    yield at_least(plain(gain, reached, "share", command, trivially), REACH_GAIN)


def _trivially(found: Found, split: str, name: str) -> float:
    """Return the most that a baseline reaches."""
    return max(number(found[f"{split}/{baseline}"], name) for baseline in BASELINES)


def _layers(log: str, found: Found, command: str) -> Iterator[Row]:
    for jobs in ("", "gpu_"):
        for group in HISTORY_GROUPS:
            split = f"{jobs}jobs_{group}"
            for layer in (split, f"{split}/{CLUSTER_MODEL}"):
                if layer in found:
                    what = f"runtime, {log}, at submission, {layer}"
                    row = found[layer]
                    yield plain(f"{what}, log", number(row, "r2_log"), "R²", command)
                    yield plain(f"{what}, within 2x", number(row, "within_2x"), "share", command)


def _said(split: str) -> str:
    name, at, moment = split.partition("@")
    return f"{'GPU jobs' if name == 'gpu' else 'all jobs'} {MOMENTS[at + moment]}"
