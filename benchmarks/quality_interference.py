"""Interference on Lucid and Gavel: splits, measured pairs, sharing classes, choice of pairs."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.next_curves import SEED, START, STEP, STEPS, curve, outer_trial
from benchmarks.quality_row import Row, at_least, at_most, interval_rows, number, plain
from data.importers import gavel, lucid
from features.profiles import profiles
from pipelines.interference.evaluate import Plan, evaluate_interference
from pipelines.interference.gpu_models import gpu_model_rows
from pipelines.interference.pair_design import effect_information
from pipelines.interference.share_scores import commonest_classes, share_answers
from pipelines.labelling.audit import audited
from pipelines.labelling.audit_rules import ALL_ROWS, AuditRules

RULES: Mapping[str, AuditRules] = {"audited": AuditRules(), "all": ALL_ROWS}
SPLITS: Mapping[str, tuple[str, ...]] = {
    "audited": ("pair", "family_pair", "configuration", "family"),
    "all": ("pair", "family"),  # which others publish on
}
REACH = {"pair": 0.90, "family_pair": 0.75, "family": 0.60, "family_k3": 0.78}
REACH_MAE = 0.035
REACH_GPU_MODEL, REACH_SHARES, REACH_CHOICE = 0.75, 0.80, 0.5
EVALUATE = "colocast evaluate interference --data lucid --split {split} --rows {rows}"
BENCH = "python -m benchmarks.quality --only interference --json FILE"

DRAWS = 2  # of the fifth that is never measured


def interference_quality(folder: Path) -> Iterator[Row]:
    """Yield every row about interference."""
    tables = lucid.read(folder / "lucid")
    runs = tables["profiling_runs"]
    for rows in RULES:
        yield from _splits(runs, rows)
    yield from _across_gpu_models(gavel.read(folder / "gavel")["profiling_runs"])
    yield from _shares(tables["share_labels"], runs)
    yield from _choice(runs)


def _splits(runs: pd.DataFrame, rows: str) -> Iterator[Row]:
    for split in SPLITS[rows]:
        plan = Plan((0, 3), RULES[rows])
        for found in evaluate_interference(runs, (split,), SEED, plan=plan):
            command = EVALUATE.format(split=split, rows=rows)
            what = f"interference, Lucid, {rows} rows, {found['split']}"
            yield from _scores(what, found, REACH.get(str(found["split"])), command)


def _scores(
    what: str, found: Mapping[str, object], reach: float | None, command: str
) -> Iterator[Row]:
    r2, mae, baseline = (number(found, name) for name in ("r2", "mae", "baseline_r2"))
    row = plain(what, r2, "R²", command, baseline)
    yield row if reach is None else at_least(row, reach)
    row = plain(f"{what}, MAE", mae, "", command)
    yield at_most(row, REACH_MAE) if found["split"] == "pair" else row
    yield from interval_rows(what, found, command)


def _across_gpu_models(runs: pd.DataFrame) -> Iterator[Row]:
    for found in gpu_model_rows(runs, (0, 3), SEED):
        what = f"interference, Gavel, {found['split']}"
        baseline = number(found, "baseline_r2")
        row = plain(what, number(found, "r2"), "R²", BENCH, baseline)
        yield at_least(row, REACH_GPU_MODEL)
        yield from interval_rows(what, found, BENCH)


def _shares(shares: pd.DataFrame, runs: pd.DataFrame) -> Iterator[Row]:
    classes, table = shares["share_label"].to_numpy(), profiles(runs)
    trivial = float((commonest_classes(shares, table) == classes).mean())
    for what, labels in (("profiles", None), ("own measured pairs", audited(runs).labels)):
        right = float((share_answers(shares, table, labels, SEED) == classes).mean())
        row = plain(f"share score, Lucid, by {what}", right, "share", BENCH, trivial)
        yield at_least(row, REACH_SHARES)


def _choice(runs: pd.DataFrame) -> Iterator[Row]:
    """Yield how many pairs the chosen order needs for what random choice reaches with all."""
    trials = [outer_trial(runs, draw) for draw in range(DRAWS)]
    orders = effect_information, None
    chosen, random = (
        np.mean([curve(trial, order, STEPS) for trial in trials], axis=0) for order in orders
    )
    sizes = START + STEP * np.arange(STEPS + 1)
    # The random curve's last point is its best; noise makes it stumble.
    reached = np.flatnonzero(chosen >= random[-1])
    needed = float(sizes[reached[0]]) if len(reached) else float("nan")
    what = f"pairs chosen for R² {random[-1]:.3f}, which {sizes[-1]} at random reach"
    yield at_most(plain(f"{what}, as a share", needed / sizes[-1], "share", BENCH), REACH_CHOICE)
    for size, ours, theirs in zip(sizes, chosen, random, strict=True):
        yield plain(f"R² after {size} chosen pairs", float(ours), "R²", BENCH, float(theirs))
