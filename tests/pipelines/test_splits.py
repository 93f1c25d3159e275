import numpy as np
import pandas as pd
import pytest

from data.errors import SettingError
from pipelines.splits import (
    configuration_folds,
    extrapolation_folds,
    family_folds,
    family_pair_folds,
    memory_configuration_folds,
    pair_folds,
)

KEYS = ["a1", "a2", "b1", "b2", "c1"]
MAKERS = [pair_folds, family_pair_folds, configuration_folds, family_folds]


@pytest.fixture
def labels():
    rows = [(job, neighbour) for job in KEYS for neighbour in KEYS] * 2
    frame = pd.DataFrame(rows, columns=["job_key", "neighbour_key"]).assign(gpu_model="v100")
    return frame.assign(
        family=frame["job_key"].str[0], neighbour_family=frame["neighbour_key"].str[0]
    )


def sides(labels, positions, *columns):
    return set(labels.iloc[positions][list(columns)].to_numpy().ravel())


def test_both_directions_and_all_repeats_of_a_pair_are_in_one_fold(labels):
    for fold in pair_folds(labels, 4, 0):
        pairs = [
            {frozenset(row) for row in labels.iloc[part][["job_key", "neighbour_key"]].to_numpy()}
            for part in (fold.train, fold.test)
        ]
        assert not pairs[0] & pairs[1]


def test_the_same_pair_on_another_gpu_model_is_another_pair(labels):
    both = pd.concat([labels, labels.assign(gpu_model="a100")], ignore_index=True)
    assert sum(len(fold.test) for fold in pair_folds(both, 30, 0)) == len(both)
    assert len(pair_folds(both, 100, 0)) == 30


@pytest.mark.parametrize("make", MAKERS)
def test_every_row_is_tested_once_and_never_learnt_from_then(labels, make):
    folds = make(labels, 3, 0)
    tested = np.concatenate([fold.test for fold in folds])
    assert sorted(tested) == list(range(len(labels)))
    assert all(not set(fold.train) & set(fold.test) for fold in folds)


def test_families_that_were_never_together_were_each_learnt_from(labels):
    for fold in family_pair_folds(labels, 3, 0):
        met, asked = (
            {frozenset(row) for row in labels.iloc[part][["family", "neighbour_family"]].to_numpy()}
            for part in (fold.train, fold.test)
        )
        assert not met & asked
        assert frozenset().union(*met) == {"a", "b", "c"}


@pytest.mark.parametrize("make", MAKERS)
def test_the_seed_decides_the_folds(labels, make):
    folds = [[fold.test.tolist() for fold in make(labels, 3, seed)] for seed in (0, 0, 1)]
    assert folds[0] == folds[1]
    assert folds[0] != folds[2]


@pytest.mark.parametrize(
    ("make", "job", "neighbour"),
    [
        (configuration_folds, "job_key", "neighbour_key"),
        (family_folds, "family", "neighbour_family"),
    ],
)
def test_what_is_held_out_is_unseen_on_both_sides(labels, make, job, neighbour):
    for fold in make(labels, 3, 0):
        assert not sides(labels, fold.test, job) & sides(labels, fold.train, job, neighbour)


def test_a_single_group_cannot_be_held_out(labels):
    with pytest.raises(SettingError, match="found 1 group to hold out, wanted at least 2"):
        family_folds(labels.assign(family="x", neighbour_family="x"), 3, 0)


def test_a_family_that_is_only_ever_a_neighbour_has_no_fold(labels):
    lonely = labels[labels["family"] != "c"]
    assert sorted(fold.name for fold in family_folds(lonely, 9, 0)) == ["a", "b"]


def memory_runs(sizes, **columns):
    fixed = {"dataset": "d", "framework": "pytorch/2", "embedding_rows": np.nan}
    frame = pd.DataFrame({"dense_parameters": sizes, **fixed, **columns})
    return frame.assign(embedding_width=np.nan, batch_size=1.0)


def test_repeats_of_a_configuration_stay_together():
    runs = memory_runs(range(12)).assign(configuration=["a", "b", "c", "d"] * 3)
    for fold in memory_configuration_folds(runs, 4, 0):
        assert len(set(runs["configuration"].iloc[fold.test])) == 1
        assert not sides(runs, fold.test, "configuration") & sides(
            runs, fold.train, "configuration"
        )


def test_fifths_run_from_the_smallest_to_the_largest_models():
    folds = extrapolation_folds(memory_runs(np.arange(100.0)[::-1]))
    assert [fold.name for fold in folds] == [f"fifth {at}" for at in range(1, 6)]
    assert folds[0].test.tolist() == list(range(81, 100))
    assert folds[4].test.tolist() == list(range(21))


def test_models_of_equal_size_are_held_out_together():
    runs = memory_runs([1.0] * 30 + [2.0] * 30 + [3.0] * 40)
    held_out = [set(runs["dense_parameters"].iloc[fold.test]) for fold in extrapolation_folds(runs)]
    assert sorted(held_out, key=min) == [{1.0}, {2.0}, {3.0}]


def test_fifths_are_of_each_data_set():
    runs = memory_runs([*range(50), *range(1000, 1050)], dataset=["d"] * 50 + ["e"] * 50)
    largest = extrapolation_folds(runs)[-1].test
    assert runs["dataset"].iloc[largest].value_counts().tolist() == [11, 11]


def test_models_of_one_size_cannot_be_extrapolated():
    assert extrapolation_folds(memory_runs([5.0] * 10)) == []
