"""Memory on DLPerf and GPUMemNet, and demand on GPUMemNet: held-out rows, nested choices."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np

from benchmarks import quality_amounts, quality_terms
from benchmarks.nested import CHOSEN
from benchmarks.quality_row import Row, at_least, at_most, interval_rows, number, plain
from data.importers import dlperf, gpumemnet
from pipelines.demand.evaluate import evaluate_demand
from pipelines.memory.evaluate import evaluate_memory
from pipelines.memory.fit import PEAK
from pipelines.metrics import r2

SEED = 7
REACH_R2 = {"configuration": 0.97, "extrapolation": 0.96}
REACH_UNDER, REACH_MARGIN = 0.05, 0.15
REACH_SM_ACTIVE = 0.7
EVALUATE = "colocast evaluate {model} --data {data}"
TERMS = "python -m benchmarks.quality_terms --data {data} --split {split}"
AMOUNTS = "python -m benchmarks.quality_amounts --data gpumemnet --split {split}"


def memory_quality(folder: Path) -> Iterator[Row]:
    """Yield every row about memory."""
    for name, reader, place in (
        ("DLPerf", dlperf.read, "dlperf-recsys"),
        ("GPUMemNet", gpumemnet.read, "gpumemnet"),
    ):
        command = EVALUATE.format(model="memory", data=place)
        runs = reader(folder / place)["memory_runs"]
        for found in evaluate_memory(runs, tuple(REACH_R2), SEED):
            yield from _memory_rows(f"memory, {name}", found, command)
        yield from _with_chosen_terms(f"memory, {name}", folder / place)


def demand_quality(folder: Path) -> Iterator[Row]:
    """Yield every row about demand."""
    command = EVALUATE.format(model="demand", data="gpumemnet")
    runs = gpumemnet.read(folder / "gpumemnet")["memory_runs"]
    for found in evaluate_demand(runs, ("configuration", "family"), SEED):
        split = str(found["split"])
        what = f"demand, GPUMemNet, {split}"
        baseline = number(found, "baseline_r2")
        row = plain(what, number(found, "r2"), "R²", command, baseline)
        yield at_least(row, REACH_SM_ACTIVE) if split.endswith("sm_active_mean") else row
        yield from interval_rows(what, found, command)
    for split in ("configuration", "family"):
        scores = quality_amounts.held_out(runs, split)[CHOSEN]
        what = f"demand, GPUMemNet, {split}, amounts {CHOSEN}, SM active"
        command = AMOUNTS.format(split=split)
        yield at_least(plain(what, scores["sm_active_mean"], "R²", command), REACH_SM_ACTIVE)


def _with_chosen_terms(name: str, path: Path) -> Iterator[Row]:
    for split, target in REACH_R2.items():
        told = quality_terms.held_out(path, split)
        score = r2(*(told[each].to_numpy(np.float64) for each in (PEAK, CHOSEN)))
        command = TERMS.format(data=path.name, split=split)
        row = plain(f"{name}, {split}, terms {CHOSEN}", score or 0.0, "R²", command)
        yield at_least(row, target)


def _memory_rows(name: str, found: Mapping[str, object], command: str) -> Iterable[Row]:
    split = str(found["split"])
    what, target = f"{name}, {split}", REACH_R2[split.split(":", maxsplit=1)[0]]
    baseline = number(found, "baseline_r2")
    yield at_least(plain(what, number(found, "r2"), "R²", command, baseline), target)
    under, margin = number(found, "under_rate"), number(found, "upper_margin_median")
    above = plain(f"{what}, more than 5 % above the bound", under, "share", command)
    yield at_most(above, REACH_UNDER)
    yield at_most(
        plain(f"{what}, bound above the answer (median)", margin, "", command), REACH_MARGIN
    )
    yield plain(f"{what}, a forest instead", number(found, "reference_forest_r2"), "R²", command)
    yield from interval_rows(what, found, command)
