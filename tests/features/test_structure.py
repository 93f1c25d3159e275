import numpy as np
import pytest

from data.domain import ModelStructure
from features.structure import structure_features, structures_frame


def features(**fields):
    structure = ModelStructure(**{"family": "f", "batch_size": 256, **fields})
    return structure_features(structures_frame([structure])).iloc[0]


def test_embedding_is_sharded_over_gpus():
    row = features(gpus=4, embedding_rows=2**20, embedding_width=16)
    assert row["embedding_mib_per_gpu"] == 16.0
    assert (row["batch_size"], row["batch_per_gpu"]) == (256, 64)


def test_mixed_precision_halves_activations_only():
    single = features(dense_parameters=2**20, activations=2**20)
    mixed = features(dense_parameters=2**20, activations=2**20, precision="amp")
    assert mixed["activations_mib"] == single["activations_mib"] / 2 == 512.0
    assert mixed["dense_mib"] == single["dense_mib"] == 4.0


def test_optimizer_states_multiply_the_weights():
    row = features(optimizer="Adam", dense_parameters=2**20)
    assert (row["optimizer_states"], row["optimizer_mib"]) == (2.0, 8.0)
    assert features(optimizer="sgd", dense_parameters=2**20)["optimizer_mib"] == 0.0


def test_unknown_is_missing_and_never_zero():
    row = features(optimizer="unknown", precision="unknown")
    known = {"batch_size", "batch_per_gpu", "gpus", "gpus_log2"}
    indicators = {name for name in row.index if name.startswith("framework_")}
    others = set(row.index) - known - indicators
    assert row[sorted(others)].isna().all()


@pytest.mark.parametrize(
    ("framework", "name", "version"),
    [
        ("HugeCTR/3.2", "hugectr", 3.02),
        ("OneFlow/0.6.0-3c2e05d49", "oneflow", 0.06),
        ("pytorch", "pytorch", np.nan),
    ],
)
def test_framework_is_an_indicator_and_a_version(framework, name, version):
    row = features(framework=framework)
    chosen = row.filter(regex="^framework_(?!version)")
    assert chosen[chosen == 1].index.tolist() == [f"framework_{name}"]
    assert row["framework_version"] == pytest.approx(version, nan_ok=True)
