"""Small bundles of the memory and the demand model."""

import numpy as np
import pandas as pd
from sklearn.ensemble import RandomForestRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline

from data.domain import ModelStructure
from features.structure import (
    MEMORY_COLUMNS,
    STRUCTURE_COLUMNS,
    structure_features,
    structures_frame,
)
from serving.champions.files import example_values
from serving.forest.compiled import compiled
from serving.inference.bundle import Bundle, Calibration, ModelSpec

STRUCTURES = [
    ModelStructure("dlrm", 64 * (1 + n), embedding_rows=1000 * n, embedding_width=16, depth=n % 4)
    for n in range(40)
]
SIGNALS = pd.DataFrame(
    {
        "signal": ["gpu_util_mean", "sm_active_mean", "gpu_mem_peak_mib"],
        "scale": 1.0,
        "is_log": [False, False, True],
    }
)


def spec(name, columns, rows, predict, **calibration):
    known = rows.dropna(axis="columns")
    examples = rows.to_numpy(np.float64)[:5]
    return ModelSpec(
        name=name,
        features=tuple(columns),
        scale="identity",
        calibration=Calibration(0.9, (-0.1, 0.1), outside=2.0, **calibration),
        low=known.min().to_dict(),
        high=known.max().to_dict(),
        floor=0.0,
        example_rows=tuple(tuple(None if np.isnan(v) else v for v in row) for row in examples),
        example_values=example_values(predict(examples)),
    )


def memory_bundle():
    """A model that predicts about a MiB for each row of a batch."""
    columns = [name for name in MEMORY_COLUMNS if name in _known()]
    rows = structure_features(structures_frame(STRUCTURES))[columns]
    target = np.array([structure.batch_size + 100.0 for structure in STRUCTURES])
    ridge = make_pipeline(SimpleImputer(), Ridge(alpha=1e-3))
    ridge.fit(rows.to_numpy(np.float64), target)
    predict = compiled(ridge)
    return Bundle(spec("colocast-memory", columns, rows, predict), "", predict, ridge)


def demand_bundle():
    """A forest of three signals."""
    rows = structure_features(structures_frame(STRUCTURES))[list(STRUCTURE_COLUMNS)]
    share = np.linspace(0.1, 0.9, len(rows))
    targets = np.column_stack([share, share**2, np.log1p(1000 * share)])
    forest = RandomForestRegressor(5, random_state=0).fit(rows.to_numpy(np.float64), targets)
    predict = compiled(forest)
    facts = spec("colocast-demand", STRUCTURE_COLUMNS, rows, predict)
    return Bundle(facts, "", predict, forest, {"signals": SIGNALS})


def _known():
    return set(structure_features(structures_frame(STRUCTURES)).dropna(axis="columns").columns)
