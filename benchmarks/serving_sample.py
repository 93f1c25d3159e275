"""A made-up fleet and the interference model that it trains: what the service is measured with.

The numbers of the model mean nothing; its size does: a forest of 200 trees and some 200,000 nodes
over 200 job keys, as a site with a few thousand measured pairs would have.
"""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
import skops.io

from data.domain import PROFILE_COLUMNS
from pipelines.interference.fit import ForestOptions, InterferenceData, uncalibrated_bundle
from serving.champions.files import write_facts
from serving.inference.bundle import Bundle, Calibration

GPU_MODEL = "A100"
KEYS, FAMILIES, PAIRS, TREES = 200, 20, 2_500, 200
INTERVAL = Calibration(0.9, (-0.1, 0.2), outside=2.0)


@dataclass(frozen=True, slots=True)
class Fleet:
    """Job keys and their measured pairs.

    Attributes
    ----------
    keys : tuple of str
    profiles : DataFrame, ``data.schemas.PROFILES``
    labels : DataFrame, ``data.schemas.LABELS``
    """

    keys: tuple[str, ...]
    profiles: pd.DataFrame
    labels: pd.DataFrame


def fleet(seed: int, keys: int = KEYS, pairs: int = PAIRS) -> Fleet:
    """Return a fleet that is the same for the same arguments."""
    random = np.random.default_rng(seed)
    names = [f"family{n % FAMILIES}/b{2 ** (3 + n // FAMILIES % 8)}#{n}" for n in range(keys)]
    signals = pd.DataFrame(random.random((keys, len(PROFILE_COLUMNS))), columns=PROFILE_COLUMNS)
    signals["gpu_mem_peak_mib"] = 1000.0 + 20_000.0 * random.random(keys)
    family = [f"family{n % FAMILIES}" for n in range(keys)]
    named = {"job_key": names, "gpu_model": GPU_MODEL, "family": family, "exclusive_jct_s": 60.0}
    profiles = pd.DataFrame({**named, "runs": 3.0}).join(signals)
    chosen = random.choice(keys * keys, min(pairs, keys * keys), replace=False)
    job, neighbour = chosen // keys, chosen % keys
    busy = signals["sm_active_mean"].to_numpy()
    excess = np.maximum(busy[job] + busy[neighbour] - 0.9, 0.0) * (0.5 + random.random(len(job)))
    labels = {
        "job_key": np.array(names)[job],
        "neighbour_key": np.array(names)[neighbour],
        "gpu_model": GPU_MODEL,
        "family": np.array(family)[job],
        "neighbour_family": np.array(family)[neighbour],
        "slowdown": 1.0 + excess,
    }
    return Fleet(tuple(names), profiles, pd.DataFrame(labels))


def trained(fleet: Fleet, seed: int, trees: int = TREES, like: Bundle | None = None) -> Bundle:
    """Return the model of a fleet, with a made-up interval: calibrating takes minutes."""
    data = InterferenceData(fleet.labels, fleet.profiles, floor=1.0)
    options = ForestOptions(trees=trees, min_samples_leaf=5)
    bundle = uncalibrated_bundle(data, options, seed, like)
    return replace(bundle, spec=replace(bundle.spec, calibration=INTERVAL))


def widened(bundle: Bundle, profiles: pd.DataFrame) -> Bundle:
    """Return the same model for the jobs of other profiles."""
    return replace(bundle, tables={**bundle.tables, "profiles": profiles})


def written(bundle: Bundle, directory: Path) -> Path:
    """Write a version as the registry would hold it, and return its directory."""
    directory.mkdir(parents=True)
    skops.io.dump(bundle.estimator, directory / "model.skops")
    write_facts(bundle, directory)
    return directory
