from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from data.domain import ModelStructure
from features.memory_terms import learnt_columns
from features.structure import MEMORY_COLUMNS, structures_frame
from serving.inference.bundle import Bundle, Calibration, ModelSpec
from serving.inference.memory import memory_estimates, memory_estimates_of_rows

DENSE = MEMORY_COLUMNS.index("dense_mib")
GROUPS = {
    "pytorch cnn": (-np.log(2), np.log(4)),
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


@pytest.fixture
def kin_bundle(bundle):
    """Knows ``pytorch/2.1`` multi-layer perceptrons; four MiB for a MiB of dense weights."""
    learnt = structures_frame([model()] * 5)
    columns = learnt_columns(learnt)
    dense = [at for at, name in enumerate(columns) if name.endswith("any|dense_mib")]
    spec = replace(
        bundle.spec,
        features=columns,
        low=dict.fromkeys(columns, 0.0),
        high={name: 1000.0 if "dense_mib" in name else 1e9 for name in columns},
    )
    kinships = ["exact", "kind", "framework", "any", "unseen"]
    beyond = pd.DataFrame({"kinship": kinships, "lower": -0.1, "upper": [1.0, 0.5, 0.8, 1.2, 1.0]})
    return Bundle(
        spec,
        "colocast-memory/1",
        lambda rows: 4 * np.nan_to_num(rows[:, dense]).sum(axis=1),
        None,
        {"beyond": beyond},
    )


def model(mib=256, framework="pytorch/2.1", family="mlp"):
    return ModelStructure(family, 8, framework=framework, dense_parameters=mib * 2**18)


def factor(bundle, structure):
    found = memory_estimates(bundle, [structure]).iloc[0]
    return found["upper"] / found["value"]


def test_estimates_are_in_mib_in_the_order_asked(bundle):
    found = memory_estimates(bundle, [model(512), model(256)])
    assert found["value"].tolist() == pytest.approx([2048.0, 1024.0])
    assert (found["source"] == "model").all()


@pytest.mark.parametrize(
    ("structure", "wanted"),
    [
        (model(), 1.5),
        (model(family="CNN"), 4),
        (model(framework="jax", mib=256), 2),
        (model(framework="jax", mib=512), 3),
    ],
    ids=["framework", "framework and family", "nothing is known", "size"],
)
def test_upper_bound_is_of_the_narrowest_group(bundle, structure, wanted):
    assert factor(bundle, structure) == pytest.approx(wanted)


def test_bound_widens_beyond_what_was_learnt(bundle):
    found = memory_estimates(bundle, [model(2000)]).iloc[0]
    assert not found["in_domain"]
    assert found["upper"] / found["value"] == pytest.approx(1.5**2)


def test_bound_widens_with_the_distance(kin_bundle):
    within, near, far = (factor(kin_bundle, model(mib)) for mib in (900, 1100, 4000))
    assert within == pytest.approx(1.5)
    assert within < near < far


def test_a_version_says_how_its_bounds_widen_with_the_distance(kin_bundle):
    far, table = model(4000), kin_bundle.tables["beyond"]
    level, steep = (
        replace(kin_bundle, tables={"beyond": table.assign(per_share=by, per_log_ratio=by)})
        for by in (0.0, 6.0)
    )
    assert factor(level, far) < factor(kin_bundle, far) < factor(steep, far)


@pytest.mark.parametrize(
    ("structure", "wanted"),
    [
        (model(framework="pytorch/2.9"), 0.5),
        (model(family="cnn"), 0.8),
        (model(framework="jax"), 1.2),
    ],
    ids=["another version", "another family", "another framework"],
)
def test_bound_of_a_stranger_is_that_of_its_nearest_kin(kin_bundle, structure, wanted):
    plain = replace(kin_bundle.spec, calibration=Calibration(0.9, (-0.1, 0.1)))
    found = memory_estimates(replace(kin_bundle, spec=plain), [structure]).iloc[0]
    assert not found["in_domain"]
    assert found["value"] == pytest.approx(1024)
    assert found["upper"] / found["value"] == pytest.approx(np.exp(wanted))


def test_known_kin_within_its_range_is_within(kin_bundle):
    assert memory_estimates(kin_bundle, [model(family="MLP")])["in_domain"].all()


def test_nothing_lies_below_the_floor(bundle):
    found = memory_estimates(bundle, [ModelStructure("mlp", 8)]).iloc[0]
    assert found[["lower", "value"]].tolist() == pytest.approx([100.0, 100.0])


@pytest.mark.parametrize("kind", ["bundle", "kin_bundle"])
def test_one_row_equals_the_batch(kind, request):
    chosen = request.getfixturevalue(kind)
    rows = structures_frame([model(512), model(64), model(family="cnn"), model(5000)])
    batch = memory_estimates_of_rows(chosen, rows)
    for at in range(4):
        single = memory_estimates_of_rows(chosen, rows.iloc[[at]])
        assert single.iloc[0].tolist() == batch.iloc[at].tolist()


@pytest.mark.parametrize("kind", ["bundle", "kin_bundle"])
def test_no_models_need_no_memory(kind, request):
    assert memory_estimates(request.getfixturevalue(kind), []).empty


def test_what_no_learnt_row_had_is_bounded_as_a_stranger(kin_bundle):
    high = {**kin_bundle.spec.high, "exact|any|gpus_log2": 0.0}
    single = replace(kin_bundle, spec=replace(kin_bundle.spec, high=high))
    found = memory_estimates(single, [replace(model(), gpus=8)]).iloc[0]
    assert not found["in_domain"]
    assert found["upper"] / found["value"] == pytest.approx(8)  # the widest that is said
