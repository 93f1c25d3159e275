"""What memory predictions are worth on a test set that is worlds apart from what was learnt.

    python -m benchmarks.quality_apart --dlperf PATH --gpumemnet PATH

Each line is what ``colocast evaluate memory --train PATH --test PATH`` prints where the two paths
hold those rows: R², the share within a factor of two, the share more than 5 % above the 95 % bound,
and the share inside the 90 % interval.
"""

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from data.importers import dlperf, gpumemnet
from pipelines.labelling.from_runs import usable
from pipelines.memory.evaluate import evaluate_given_memory
from pipelines.memory.fit import PEAK

SEED = 7
SHOWN = ("r2", "within_2x", "under_rate", "coverage_90")
LOWER_SHARE = 0.8
EVERY = 4  # row of GPUMemNet, which has 7,623


@dataclass(frozen=True, slots=True)
class World:
    """What is learnt from, and what is asked about."""

    name: str
    train: pd.DataFrame
    test: pd.DataFrame


def main() -> None:
    """Print a line for each pair of sets, as soon as it is known."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dlperf", type=Path, required=True)
    parser.add_argument("--gpumemnet", type=Path, required=True)
    given = parser.parse_args()
    read = dlperf.read(given.dlperf), gpumemnet.read(given.gpumemnet)
    for world in worlds(*(usable(tables["memory_runs"]).reset_index(drop=True) for tables in read)):
        found = evaluate_given_memory(world.train, world.test, SEED)
        told = " / ".join(f"{found[name]:.3f}" for name in SHOWN)
        sys.stdout.write(f"{told}  {world.name} ({len(world.train)} to {len(world.test)} runs)\n")
        sys.stdout.flush()


def worlds(recommenders: pd.DataFrame, networks: pd.DataFrame) -> Iterator[World]:
    """Yield the pairs of sets.

    Parameters
    ----------
    recommenders, networks : DataFrame, ``data.schemas.MEMORY_RUNS``
        Of DLPerf and of GPUMemNet; those whose memory is known.
    """
    framework = recommenders["framework"].astype("str")
    peak = recommenders[PEAK]
    yield from _both_ways(recommenders, framework.str.startswith("HugeCTR"), "HugeCTR", "OneFlow")
    of_hugectr = recommenders[framework.str.startswith("HugeCTR")]
    old = of_hugectr["framework"] == "HugeCTR/2.2"
    yield World("HugeCTR 2.2 to 3.2", of_hugectr[old], of_hugectr[~old])
    is_wide = recommenders["family"] == "WideDeep"
    yield World("WideDeep to DLRM", recommenders[is_wide], recommenders[~is_wide])
    is_one = recommenders["gpus"] == 1
    yield World("one GPU to many", recommenders[is_one], recommenders[~is_one])
    low = peak <= peak.quantile(LOWER_SHARE)
    yield World("the lower four fifths to the highest", recommenders[low], recommenders[~low])
    even = pd.Series(np.arange(len(recommenders)) % 2 == 0, index=recommenders.index)
    yield World("every other row to the rest", recommenders[even], recommenders[~even])
    yield World("DLPerf to GPUMemNet", recommenders, networks.iloc[::EVERY])
    is_mlp = networks["family"] == "mlp"
    yield World("MLPs to CNNs", networks[is_mlp], networks[~is_mlp])


def _both_ways(runs: pd.DataFrame, is_first: pd.Series, first: str, second: str) -> Iterator[World]:
    yield World(f"{first} to {second}", runs[is_first], runs[~is_first])
    yield World(f"{second} to {first}", runs[~is_first], runs[is_first])


if __name__ == "__main__":
    main()
