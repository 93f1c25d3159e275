"""The learning loop against what it is to reach; ``make bench-learning``.

Reads the public sets from the folder that ``COLOCAST_PUBLIC_DATA`` names (``drac-slurm``,
``philly``, ``lucid`` and ``gavel`` in it). ``COLOCAST_BENCH_DAYS`` lives fewer days than sixty,
with the planted drifts as much closer together. Lost and doubled jobs are counted by
``make test-chaos``.
"""

import argparse
import json
import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.learning_alarms import alarms_a_month, alarms_without_drift, planted_delays
from benchmarks.learning_families import (
    can_be_halved,
    halving,
    jobs_until_half_learnt,
    jobs_until_halved,
    least_errors,
)
from benchmarks.learning_lived import LOOP, NEVER, NIGHTLY, NOTHING, Lived
from benchmarks.learning_run import WARM_UP_DAYS
from benchmarks.learning_world import DAY_S, DAYS, drifts_within, made_world
from pipelines.retraining.gate import verdict
from pipelines.retraining.gate_terms import Evidence, GateRules, Verdict
from pipelines.retraining.pictures import error_over_time
from pipelines.retraining.watch import Observations

PARTS = {"loop": f"{LOOP},{NEVER},{NOTHING}", "nightly": NIGHTLY}
START = "from benchmarks.learning_run import main; main()"
REPEATS = 20
COMMAND = "make bench-learning"


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table; `holds` is None where nothing is to be reached."""

    what: str
    value: float
    unit: str
    target: float | None
    holds: bool | None
    command: str = COMMAND


def main() -> None:
    """Live the days, print the table, write it and the picture."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument("--lived", type=Path, help="Folder of an earlier run; nothing is lived.")
    given = parser.parse_args()
    folder = os.environ.get("COLOCAST_PUBLIC_DATA")
    if not folder:
        sys.exit("COLOCAST_PUBLIC_DATA must name a folder with drac-slurm/, philly/ and lucid/")
    days = float(os.environ.get("COLOCAST_BENCH_DAYS", DAYS))
    given.json.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="colocast-bench-") as temporary:
        place = given.lived or Path(temporary)
        if given.lived is None:
            _live(place, days)
        lived, nightly = (pickle.loads((place / f"{part}.pkl").read_bytes()) for part in PARTS)
    rows = table(lived, nightly, Path(folder), days)
    for row in rows:
        mark = {True: "reached", False: "MISSED", None: ""}[row.holds]
        target = "" if row.target is None else f"{row.target:g}"
        print(f"{row.what:<78}{row.value:>9.3f} {row.unit:<12}{target:>8} {mark}")
    given.json.write_text(json.dumps([asdict(row) for row in rows], indent=1))
    picture = given.json.with_suffix(".png")
    picture.write_bytes(_picture(lived, nightly, days))
    print(f"errors over time: {picture}")
    _logged(picture, rows)


def _live(place: Path, days: float) -> None:
    """Live the loop and the nightly retraining, beside each other."""
    started = [
        subprocess.Popen(
            [sys.executable, "-c", START, "--who", who, "--days", str(days),
             "--out", str(place / f"{part}.pkl")]
        )
        for part, who in PARTS.items()
    ]  # fmt: skip
    if any(process.wait() for process in started):
        sys.exit("the days could not be lived; see above")


def table(lived: Lived, nightly: Lived, folder: Path, days: float) -> list[Row]:
    """Return the rows of everything that was lived."""
    both = _together(lived, nightly)
    return [
        *_prequential(both, lived, nightly),
        *_families(folder),
        *_slow_driver(both, lived, days),
        *_poison(lived, both, folder, days),
        *_gained(lived),
        *_alarms(both),
        *_delays(folder),
    ]


def _together(lived: Lived, nightly: Lived) -> pd.DataFrame:
    other = nightly.errors.set_index("job_id")[[NIGHTLY]]
    return lived.errors.join(other, on="job_id", how="inner")


def _prequential(both: pd.DataFrame, lived: Lived, nightly: Lived) -> list[Row]:
    rows = []
    ratios: dict[str, list[float]] = {NEVER: [], NOTHING: [], NIGHTLY: []}
    for kind, part in both.groupby("kind"):
        mine = float(part[LOOP].mean())
        rows.append(Row(f"{kind}: mean absolute log error of the loop", mine, "", None, None))
        for who, found in ratios.items():
            change = mine / float(part[who].mean()) - 1
            found.append(change)
            rows.append(Row(f"{kind}: against {who}", 100 * change, "%", None, None))
    means = {who: 100 * float(np.mean(found)) for who, found in ratios.items()}
    share = lived.cpu_s["loop"] / nightly.cpu_s[NIGHTLY]
    watching = lived.cpu_s["watching"] / nightly.cpu_s[NIGHTLY]
    return [
        *rows,
        Row("mean of both, against never retrained (history and effects live)",
            means[NEVER], "%", -25, means[NEVER] <= -25),
        Row("mean of both, against nothing learnt since the first days",
            means[NOTHING], "%", -25, means[NOTHING] <= -25),
        Row("mean of both, against nightly from scratch", means[NIGHTLY], "%", 0,
            means[NIGHTLY] <= 0),
        Row("CPU time of the loop (training, judging, watching) over nightly's training",
            share, "", 0.5, share <= 0.5),
        Row("of it watching", watching, "", None, None),
    ]  # fmt: skip


def _families(folder: Path) -> list[Row]:
    errors = halving(folder)
    halved, learnt = jobs_until_halved(errors), jobs_until_half_learnt(errors)
    median = float(np.median(halved))
    possible = can_be_halved(errors, least_errors(folder))
    return [
        Row("new family: colocated jobs until half of what 30 of them teach is learnt, median",
            float(np.median(learnt)), "jobs", None, None),
        Row("new family: colocated jobs until its error is halved, median of families",
            median, "jobs", 10, median <= 10),
        Row("new family: families whose error can be halved at all, all other pairs known",
            float(possible.sum()), f"of {len(possible)}", None, None),
        Row("new family: of these, halved within 10 jobs",
            float((halved[possible] <= 10).sum()), f"of {possible.sum()}", None, None),
        Row("new family: the slowest family", float(halved.max()), "jobs", 10,
            bool(halved.max() <= 10)),
    ]  # fmt: skip


def _slow_driver(both: pd.DataFrame, lived: Lived, days: float) -> list[Row]:
    began = drifts_within(days).slow_driver
    found = [
        day - began
        for day, _, drift in lived.drifts
        if day >= began and drift.stream.startswith("slower")
    ]
    delay = min(found, default=float("inf"))
    pairs = both[(both["kind"] == "slowdown") & (both["gpu_model"] == "rtx3090")]
    before = pairs[pairs["day"].between(began - 3, began)][LOOP].mean()
    after = pairs[pairs["day"].between(began + 1, began + 4)][LOOP].mean()
    worse = sum(_is_worse(both, day, made.model) for day, made in _promotions(lived, began))
    return [
        Row("15 % slow-down: days until it is detected", delay, "days", 1, delay <= 1),
        Row("15 % slow-down: slowdown error from a day after on, over that before",
            float(after / before), "", 1.1, bool(after <= 1.1 * before)),
        _worse_than_before(lived, began, "15 % slow-down"),
        Row("15 % slow-down: promotions since, where never retraining did better for 3 days", worse,
            "", 0, worse == 0),
    ]  # fmt: skip


def _promotions(lived: Lived, since: float):
    return [(d, c) for d, c in lived.challenges if c.stage == "promoted" and d >= since]


def _is_worse(both: pd.DataFrame, day: float, model: str) -> bool:
    """Return whether the loop did worse than what was never retrained, in the next days."""
    kind = "slowdown" if "interference" in model else "runtime"
    rows = both[(both["kind"] == kind) & both["day"].between(day, day + 3)]
    gains = (rows[NEVER] - rows[LOOP]).to_numpy()
    if len(gains) < 8:
        return False
    return bool(gains.mean() < -2 * gains.std() / np.sqrt(len(gains)))


def _poison(lived: Lived, both: pd.DataFrame, folder: Path, days: float) -> list[Row]:
    began = drifts_within(days).poison
    world = made_world(folder, drifts_within(days))
    seen = {job.job_id for job in world.jobs if world.day(job.finish_time) < lived.day}
    wrong = {"tenfold": world.poisoned & seen, "lied": world.lied & seen}
    rows = [
        Row(f"{name}: share of the wrong jobs that is in quarantine, of {len(ids)}",
            len(ids & lived.quarantine.keys()) / len(ids), "", None, None)
        for name, ids in wrong.items() if ids
    ]  # fmt: skip
    worse = sum(_is_worse(both, day, made.model) for day, made in _promotions(lived, began))
    return [
        *rows,
        _worse_than_before(lived, began, "poison"),
        Row("poison: promotions since, where never retraining did better for 3 days", worse, "", 0,
            worse == 0),
    ]  # fmt: skip


def _gained(lived: Lived) -> list[Row]:
    """Return what promotions changed, against the version before each, on the same answers."""
    rows = []
    for kind, part in lived.promotions.groupby("kind"):
        change = 100 * (float(part["now"].mean()) / float(part["before"].mean()) - 1)
        made = part["promoted_day"].nunique()
        rows.append(Row(f"{kind}: error in the 3 days after {made} promotions, against the version"
                        " before", change, "%", 0, change <= 0))  # fmt: skip
    return rows


def _worse_than_before(lived: Lived, began: float, what: str) -> Row:
    worse = [found for found in compared_promotions(lived, began) if found.gain_high < 0]
    text = f"{what}: promotions since that were worse than the version before (95 %)"
    return Row(text, len(worse), "", 0, not worse)


def compared_promotions(lived: Lived, since: float) -> list[Verdict]:
    """Return how each promoted version did beside the one before it, for three days.

    Both were asked of the same jobs at the same moments, and what repeats counts once.
    """
    rows = lived.promotions
    return [
        verdict(
            Evidence(part["now"], np.ones(len(part)), part["before"], groups=part["group"]),
            GateRules(confidence=0.95),
        )
        for _, part in rows[rows["promoted_day"] >= since].groupby(["promoted_day", "kind"])
    ]


def _alarms(both: pd.DataFrame) -> list[Row]:
    found = []
    for kind, part in both.sort_values("day").groupby("kind"):
        rows = Observations(
            np.arange(len(part)), part["day"].to_numpy() * DAY_S,
            {"error": part[NEVER].to_numpy(np.float64)},
            {name: part[name].to_numpy(dtype=np.str_) for name in ("user", "family", "gpu_model")},
        )  # fmt: skip
        rate = alarms_a_month(rows, REPEATS)
        text = f"{kind}: false alarms a month, {REPEATS} reordered copies"
        found.append(Row(text, rate, "a month", 0.25, rate <= 0.25))
    return found


def _delays(folder: Path) -> list[Row]:
    rows = [
        Row(f"days until an alarm: {name} ({stream})", delay, "days", None, None)
        for name, (delay, stream) in planted_delays(folder).items()
    ]
    cried = alarms_without_drift(folder)
    return [*rows, Row("streams that cry in 50 real days without a planted drift", len(cried), "",
                       None, None)]  # fmt: skip


def _picture(lived: Lived, nightly: Lived, days: float) -> bytes:
    both = _together(lived, nightly).sort_values("day")
    pairs = both[both["kind"] == "slowdown"]
    marks: list[tuple[float, str, str]] = []
    plan = asdict(drifts_within(days))
    marks += [(day, "tab:red", "planted") for name, day in plan.items() if name != "factor"]
    marks += [(day, "tab:green", "promoted") for day, _ in _promotions(lived, WARM_UP_DAYS)]
    errors = {who: pairs[who].to_numpy(np.float64) for who in (NOTHING, NEVER, NIGHTLY, LOOP)}
    return error_over_time(pairs["day"].tolist(), errors, marks, "day")


def _logged(picture: Path, rows: Sequence[Row]) -> None:
    """Log picture and numbers where ``MLFLOW_TRACKING_URI`` says, if it does."""
    if "MLFLOW_TRACKING_URI" not in os.environ:
        return
    import mlflow

    mlflow.set_experiment("colocast-bench-learning")
    with mlflow.start_run(run_name="days lived"):
        mlflow.log_artifact(str(picture), "figures")
        mlflow.log_dict({row.what: row.value for row in rows}, "rows.json")


if __name__ == "__main__":
    main()
