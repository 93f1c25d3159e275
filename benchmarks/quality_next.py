"""In what order pairs are measured: chosen inside of what may be measured, then asked.

    python -m benchmarks.quality_next --data FOLDER_OF_LUCID
    python -m benchmarks.quality_next --data FOLDER_OF_LUCID --report --further 6

In each reported draw a fifth of the pairs is held out. Of the others a fifth is held out again, in
a few draws; each order measures pairs of the rest step by step, and the one with the highest mean
R² over these steps is the draw's. All of that is printed before `--report` asks outside.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from benchmarks.next_curves import (
    SEED,
    START,
    STEP,
    STEPS,
    Trial,
    curve,
    inner_trial,
    learnt_and_score,
    outer_trial,
)
from benchmarks.next_orders import CLOSEST, ORDERS, RANDOM, SHIPPED, predictive_information
from data.importers import lucid
from features.effect_jobs import Floats
from features.profiles import profiles
from pipelines.interference.next_pairs import best_pairs, learnt_effects
from pipelines.interference.pair_design import Order, effect_information

DRAWS, INNER_DRAWS = 2, 4  # reported; inside of each
INNER_STEPS = 5  # up to 170 pairs, about the half of what random order gets


FIRST: Mapping[str, Order | None] = {
    RANDOM: None,
    "told of the effects": effect_information,
    "told of all pairs": predictive_information,
}


def main() -> None:
    """Print what each order gives inside, which is chosen, and then what it gives outside."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--report", action="store_true", help="ask the held-out fifths, too")
    parser.add_argument("--inner", type=int, default=INNER_DRAWS, help="draws inside of each")
    parser.add_argument("--further", type=int, default=0, help="draws that are not reported")
    given = parser.parse_args()
    runs = lucid.read(given.data)["profiling_runs"]
    outer = [outer_trial(runs, draw) for draw in range(DRAWS)]
    inner = [
        [inner_trial(trial, draw, each) for each in range(given.inner)]
        for draw, trial in enumerate(outer)
    ]
    chosen = choices(inner)
    trials = [trial for each in inner for trial in each]
    ends = [random_score(trial, START + STEP * STEPS) for trial in trials]
    _say(f"{START + STEP * STEPS} at random reach {np.mean(ends):.4f} inside")
    firsts = {name: [first_score(each, order) for each in trials] for name, order in FIRST.items()}
    told = ", ".join(f"{np.mean(scores):.4f} {name}" for name, scores in firsts.items())
    _say(f"the first {START}, nothing measured before: {told}")
    if given.report:
        _report("reported, at random", outer, [RANDOM] * DRAWS)
        _report("reported, by each draw's own choice", outer, chosen)
        _report("reported, as shipped", outer, [SHIPPED] * DRAWS)
    further = [outer_trial(runs, DRAWS + draw) for draw in range(given.further)]
    for name in (RANDOM, *CLOSEST) if further else ():
        _report(f"further draws, {name}", further, [name] * len(further))


def _report(what: str, outer: Sequence[Trial], names: Sequence[str]) -> None:
    pairs = zip(outer, names, strict=True)
    found = np.mean([curve(trial, ORDERS[name], STEPS) for trial, name in pairs], axis=0)
    _say(f"{_told(found)}  {what}")


def choices(inner: Sequence[Sequence[Trial]]) -> list[str]:
    """Return the order that each draw chooses by its inner trials, and print what they gave.

    Parameters
    ----------
    inner : sequence of sequences of Trial
        The inner trials of each draw.
    """
    means = {}
    for name, order in ORDERS.items():
        found = np.array([[curve(each, order, INNER_STEPS) for each in trials] for trials in inner])
        means[name] = found[..., 1:].mean(axis=(1, 2))
        by_draw = ", ".join(f"{each:.4f}" for each in means[name])
        _say(f"{means[name].mean():.4f} ({by_draw})  {_told(found.mean(axis=(0, 1)))}  {name}")
    chosen = [
        max(means, key=lambda name, at=at: float(means[name][at])) for at in range(len(inner))
    ]
    _say(f"chosen in each draw: {'; '.join(chosen)}")
    _say(f"over all draws: {max(means, key=lambda name: float(means[name].mean()))}")
    return chosen


def random_score(trial: Trial, count: int) -> float:
    """Return R² after so many pairs at random."""
    return learnt_and_score(trial, trial.pool[:count], profiles(trial.runs))[1]


def first_score(trial: Trial, order: Order | None) -> float:
    """Return R² after the first pairs, in some order from the very first one on."""
    if order is None:
        return random_score(trial, START)
    table = profiles(trial.runs)
    nothing = learnt_effects(trial.labels.head(0), table, SEED)
    found = best_pairs(nothing, table, trial.pairs(trial.pool), START, order)
    return learnt_and_score(trial, trial.numbers(found), table)[1]


def _told(scores: Floats) -> str:
    return " ".join(f"{each:.3f}" for each in scores)


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
