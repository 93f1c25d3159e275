from dataclasses import replace

import numpy as np
import pytest

from data.domain import ModelStructure
from features.structure import MEMORY_COLUMNS, structures_frame
from serving.inference.bundle import Bundle, Calibration, ModelSpec
from serving.inference.memory import memory_estimates, memory_estimates_of_rows

DENSE = MEMORY_COLUMNS.index("dense_mib")
GROUPS = {
    "pytorch/cnn": (-np.log(2), np.log(4)),
    "pytorch": (-0.1, np.log(1.5)),
    "2^11": (-0.1, np.log(3)),
}


def four_times_the_weights(rows):
    return 4 * np.nan_to_num(rows[:, DENSE])


@pytest.fixture
def bundle():
    spec = ModelSpec(
        name="colocast-memory",
        features=MEMORY_COLUMNS,
        scale="identity",
        calibration=Calibration(0.9, (-0.1, np.log(2)), GROUPS, outside=2.0),
        low=dict.fromkeys(MEMORY_COLUMNS, 0.0),
        high={**dict.fromkeys(MEMORY_COLUMNS, 1e9), "dense_mib": 1000.0},
        floor=100.0,
    )
    return Bundle(spec, "colocast-memory/1", four_times_the_weights, None)


def model(mib=256, framework="pytorch/2.1", family="mlp"):
    return ModelStructure(family, 8, framework=framework, dense_parameters=mib * 2**18)


def test_estimates_are_in_mib_in_the_order_asked(bundle):
    found = memory_estimates(bundle, [model(512), model(256)])
    assert found["value"].tolist() == pytest.approx([2048.0, 1024.0])
    assert (found["source"] == "model").all()


@pytest.mark.parametrize(
    ("structure", "factor"),
    [
        (model(), 1.5),
        (model(family="cnn"), 4),
        (model(framework="jax", mib=256), 2),
        (model(framework="jax", mib=512), 3),
    ],
    ids=["framework", "framework and family", "nothing is known", "size"],
)
def test_upper_bound_is_of_the_narrowest_group(bundle, structure, factor):
    found = memory_estimates(bundle, [structure]).iloc[0]
    assert found["upper"] / found["value"] == pytest.approx(factor)


def test_bound_widens_beyond_what_was_learnt(bundle):
    found = memory_estimates(bundle, [model(2000)]).iloc[0]
    assert not found["in_domain"]
    assert found["upper"] / found["value"] == pytest.approx(1.5**2)


def test_nothing_lies_below_the_floor(bundle):
    found = memory_estimates(bundle, [ModelStructure("mlp", 8)]).iloc[0]
    assert found[["lower", "value"]].tolist() == pytest.approx([100.0, 100.0])


def test_weights_alone_answer_where_the_quadratic_makes_no_sense(bundle):
    beyond = replace(bundle, predict=lambda rows: np.full(len(rows), -5000.0))
    found = memory_estimates(beyond, [model(512), ModelStructure("mlp", 8)])
    assert found["value"].tolist() == pytest.approx([512.0, 100.0])
    assert not found["in_domain"].any()


def test_one_row_equals_the_batch(bundle):
    rows = structures_frame([model(512), model(64), model(family="cnn")])
    batch = memory_estimates_of_rows(bundle, rows)
    for at in range(3):
        single = memory_estimates_of_rows(bundle, rows.iloc[[at]])
        assert single.iloc[0].tolist() == batch.iloc[at].tolist()


def test_no_models_need_no_memory(bundle):
    assert memory_estimates(bundle, []).empty
