"""Small bundles on disk, and registries that hand them out."""

import shutil
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import skops.io
from sklearn.ensemble import RandomForestRegressor

from data.domain import PROFILE_COLUMNS
from data.errors import RegistryError
from features.pairs import PAIR_COLUMNS, pair_features
from serving.champions.files import example_values, write_facts
from serving.champions.sources import VersionFacts
from serving.forest.compiled import compiled
from serving.inference.bundle import Bundle, Calibration, ModelSpec

ANYONE = pd.DataFrame(
    {"side": ["any"], "key": "", "gpu_model": "", "value": 1.4, "lower": 1.0, "upper": 2.5}
)
KEYS = [f"k{number}" for number in range(12)]


@pytest.fixture(scope="session")
def profiles() -> pd.DataFrame:
    """Profiles of twelve job keys on one GPU model; some signals missing."""
    random = np.random.default_rng(0)
    signals = pd.DataFrame(random.random((12, 15)), columns=list(PROFILE_COLUMNS))
    signals.iloc[3, 2] = signals.iloc[5, 9] = np.nan
    signals["gpu_mem_peak_mib"] = 100.0 * (1 + np.arange(12))
    named = {
        "job_key": KEYS,
        "gpu_model": "v100",
        "family": "f",
        "exclusive_jct_s": 9.0,
        "runs": 3.0,
    }
    return pd.DataFrame(named).join(signals)


@pytest.fixture(scope="session")
def pairs() -> pd.DataFrame:
    """Every ordered pair of the profiled keys."""
    rows = [(job, neighbour, "v100") for job in KEYS for neighbour in KEYS]
    return pd.DataFrame(rows, columns=["job_key", "neighbour_key", "gpu_model"])


def interference_bundle(profiles: pd.DataFrame, pairs: pd.DataFrame, shift: float) -> Bundle:
    """Return a small interference model that predicts slowdowns around 1.5 + `shift`."""
    features = pair_features(profiles, pairs)
    rows = features.to_numpy(np.float64)
    target = 1.0 + shift + features["sm_active_mean_neighbour"].fillna(0.5).to_numpy()
    forest = RandomForestRegressor(8, min_samples_leaf=3, random_state=0).fit(rows, target)
    predict = compiled(forest)
    spec = ModelSpec(
        name="colocast-interference",
        features=PAIR_COLUMNS,
        scale="identity",
        calibration=Calibration(0.9, (-0.1, 0.2), outside=2.0),
        low=features.min().dropna().to_dict(),
        high=features.max().dropna().to_dict(),
        floor=0.5,
        example_rows=tuple(
            tuple(None if np.isnan(value) else value for value in row) for row in rows[:9]
        ),
        example_values=example_values(predict(rows[:9])),
    )
    tables = {"profiles": profiles, "seen": profiles[["job_key", "family"]], "cold_start": ANYONE}
    return Bundle(spec, "", predict, forest, tables)


@pytest.fixture(scope="session")
def versions(tmp_path_factory, profiles, pairs) -> Mapping[str, Path]:
    """Directories of three versions; ``bad`` answers a stored example wrongly."""
    root = tmp_path_factory.mktemp("versions")
    for number, shift in (("1", 0.0), ("2", 0.25), ("bad", 0.5)):
        bundle = interference_bundle(profiles, pairs, shift)
        (root / number).mkdir()
        skops.io.dump(bundle.estimator, root / number / "model.skops")
        write_facts(bundle, root / number)
    spoil_example(root / "bad", profiles, pairs)
    return {path.name: path for path in root.iterdir()}


def spoil_example(directory: Path, profiles: pd.DataFrame, pairs: pd.DataFrame) -> None:
    """Store other answers than the estimator gives; every digest is right."""
    from dataclasses import replace

    bundle = interference_bundle(profiles, pairs, 0.5)
    wrong = tuple(value + 1 for value in bundle.spec.example_values)
    write_facts(replace(bundle, spec=replace(bundle.spec, example_values=wrong)), directory)


class FolderChampions:
    """A registry in memory: version directories, and an alias that tests move."""

    def __init__(self, versions: Mapping[str, Path]) -> None:
        self.versions = versions
        self.champions: dict[str, str] = {}
        self.is_down = False
        self.fetched: list[str] = []

    def numbers(self) -> Mapping[str, str]:
        self._answer()
        return dict(self.champions)

    def facts(self, name: str, number: str) -> VersionFacts:
        self._answer()
        return VersionFacts(f"folder/{number}", None)

    def fetch(self, name: str, number: str, directory: Path) -> None:
        self._answer()
        self.fetched.append(number)
        shutil.copytree(self.versions[number], directory, dirs_exist_ok=True)

    def _answer(self) -> None:
        if self.is_down:
            raise RegistryError("registry: connection refused")


@pytest.fixture
def champions(versions) -> FolderChampions:
    """A registry whose champion of the interference model is version 1."""
    registry = FolderChampions(versions)
    registry.champions["colocast-interference"] = "1"
    return registry
