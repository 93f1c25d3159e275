"""Sets that are worlds apart."""

import pandas as pd

from benchmarks.quality_apart import worlds

RECOMMENDERS = pd.DataFrame(
    {
        "framework": ["HugeCTR/2.2", "HugeCTR/3.2", "HugeCTR/3.2", "OneFlow/0.6", "OneFlow/0.1.9"],
        "family": ["WideDeep", "WideDeep", "DLRM", "WideDeep", "WideDeep"],
        "gpus": [1, 8, 1, 1, 32],
        "gpu_mem_peak_mib": [1000.0, 2000.0, 9000.0, 3000.0, 4000.0],
    }
)
NETWORKS = pd.DataFrame({"family": ["mlp", "mlp", "cnn", "mlp", "cnn", "mlp"]})


def rows_of():
    return {
        world.name: (world.train.index.tolist(), world.test.index.tolist())
        for world in worlds(RECOMMENDERS, NETWORKS)
    }


def test_each_world_asks_what_the_other_does_not_hold():
    found = rows_of()
    assert found["HugeCTR to OneFlow"] == ([0, 1, 2], [3, 4])
    assert found["HugeCTR 2.2 to 3.2"] == ([0], [1, 2])
    assert found["WideDeep to DLRM"] == ([0, 1, 3, 4], [2])
    assert found["one GPU to many"] == ([0, 2, 3], [1, 4])
    assert found["the lower four fifths to the highest"] == ([0, 1, 3, 4], [2])
    assert found["MLPs to CNNs"] == ([0, 1, 3, 5], [2, 4])


def test_only_every_fourth_network_is_asked_about():
    assert rows_of()["DLPerf to GPUMemNet"] == ([0, 1, 2, 3, 4], [0, 4])
