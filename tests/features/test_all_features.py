"""The checks that every feature function passes; a new one adds an entry to ``FEATURES``."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest

from data.domain import PROFILE_COLUMNS, ModelStructure
from features.pairs import PAIR_COLUMNS, pair_features
from features.structure import STRUCTURE_COLUMNS, structure_features, structures_frame


@dataclass(frozen=True)
class Case:
    """A feature function of one frame, rows to give it, and the columns it promises."""

    features: Callable[[pd.DataFrame], pd.DataFrame]
    rows: pd.DataFrame
    columns: tuple[str, ...]


def profiles():
    random = np.random.default_rng(0)
    values = random.random((4, len(PROFILE_COLUMNS)))
    values[1, :4] = np.nan
    frame = pd.DataFrame(values, columns=list(PROFILE_COLUMNS))
    return frame.assign(job_key=["a", "b", "c", "d"], gpu_model="v100")


PAIRS = pd.DataFrame(
    {
        "job_key": ["a", "b", "c", "a", "d"],
        "neighbour_key": ["b", "a", "c", "d", "b"],
        "gpu_model": "v100",
    },
    index=[7, 3, 5, 1, 9],
)
STRUCTURES = structures_frame(
    [
        ModelStructure("dlrm", 4096, framework="HugeCTR/3.2", gpus=8, embedding_rows=10**7),
        ModelStructure("mlp", 64, framework="pytorch", dense_parameters=10**6, activations=2048),
        ModelStructure("mlp", 128, optimizer="adam", precision="amp", dense_parameters=5, depth=3),
        ModelStructure("sort", 1),
    ]
).set_index(pd.Index([4, 2, 8, 6]))

FEATURES = {
    "pair_features": Case(lambda rows: pair_features(profiles(), rows), PAIRS, PAIR_COLUMNS),
    "structure_features": Case(structure_features, STRUCTURES, STRUCTURE_COLUMNS),
}


@pytest.fixture(params=FEATURES.values(), ids=FEATURES.keys())
def case(request):
    return request.param


def test_columns_and_index_are_as_promised(case):
    features = case.features(case.rows)
    assert tuple(features.columns) == case.columns
    assert features.index.equals(case.rows.index)
    assert (features.dtypes == "float64").all()


def test_one_row_equals_the_batch(case):
    batch = case.features(case.rows)
    single = pd.concat([case.features(case.rows.iloc[[at]]) for at in range(len(case.rows))])
    pd.testing.assert_frame_equal(single, batch, check_exact=True)


def test_order_of_rows_is_irrelevant(case):
    turned = case.features(case.rows[::-1])
    pd.testing.assert_frame_equal(turned[::-1], case.features(case.rows), check_exact=True)


def test_input_stays_as_it_was(case):
    before = case.rows.copy(deep=True)
    case.features(case.rows)
    pd.testing.assert_frame_equal(case.rows, before, check_exact=True)


def test_no_rows_give_no_features(case):
    none = case.features(case.rows.iloc[:0])
    assert tuple(none.columns) == case.columns
    assert none.empty


def test_nothing_is_infinite(case):
    assert not np.isinf(case.features(case.rows).to_numpy()).any()
