import numpy as np
import pytest

from data.domain import ModelStructure
from features.memory_terms import (
    MOST_GROUPS,
    TERMS,
    learnt_columns,
    memory_features,
    nearest_kinship,
)
from features.structure import structures_frame


def rows(*texts):
    """Return models written as ``framework family``."""
    pairs = [text.split(" ") for text in texts]
    return structures_frame(
        ModelStructure(family, 64, framework=framework, gpus=2, embedding_rows=2**20)
        for framework, family in pairs
    )


LEARNT = rows(*["a/1 dlrm"] * 5, *["a/1 mlp"] * 5, *["b/2 dlrm"] * 5)
COLUMNS = learnt_columns(LEARNT)


@pytest.mark.parametrize(
    ("text", "kinship"),
    [
        ("a/1 DLRM", "exact"),
        ("a/9 dlrm", "kind"),
        ("a/1 cnn", "framework"),
        ("b/2 mlp", "framework"),
        ("c/1 dlrm", "any"),
    ],
)
def test_kinship_is_the_nearest_that_was_learnt(text, kinship):
    assert nearest_kinship(rows(text), COLUMNS).tolist() == [kinship]


def test_row_fills_the_columns_of_its_own_groups_alone():
    found = memory_features(rows("a/1 dlrm"), COLUMNS).iloc[0].dropna()
    groups = {tuple(name.split("|")[:2]) for name in found.index}
    assert groups == {("exact", "any"), ("exact", "a dlrm"), ("exact", "a/1 dlrm")}
    assert found["exact|any|context"] == 1
    assert found["exact|a dlrm|gpus_log2"] == 1


def test_stranger_fills_the_columns_of_its_block_alone():
    found = memory_features(rows("c/1 dlrm"), COLUMNS).iloc[0].dropna()
    assert {name.split("|")[0] for name in found.index} == {"any"}


def test_table_on_one_gpu_has_a_term_of_its_own():
    one = structures_frame([ModelStructure("m", 8, embedding_rows=2**18, embedding_width=4)])
    two = one.assign(gpus=2.0)
    column = ["any|any|embedding_mib_single_gpu"]
    assert memory_features(one, column).iloc[0, 0] == 4
    assert memory_features(two, column).iloc[0, 0] == 0


def test_small_groups_and_the_smallest_of_many_are_not_told_apart():
    few = learnt_columns(rows(*["a mlp"] * 4))
    assert {name.split("|")[1] for name in few} == {"any"}
    many = learnt_columns(rows(*[f"a m{at}" for at in range(MOST_GROUPS + 3) for _ in range(5)]))
    kinds = {name.split("|")[1] for name in many if name.startswith("kind|a m")}
    assert len(kinds) == MOST_GROUPS


def test_described_as_a_stranger_where_asked():
    asked = rows("a/1 dlrm")
    found = memory_features(asked, COLUMNS, asked["family"].map(lambda _: "framework")).iloc[0]
    assert {name.split("|")[0] for name in found.dropna().index} == {"framework"}


def test_columns_are_unique_and_rows_finite():
    assert len(set(COLUMNS)) == len(COLUMNS)
    assert len(COLUMNS) % len(TERMS) == 0
    assert not np.isinf(memory_features(LEARNT, COLUMNS).to_numpy()).any()


def test_columns_are_of_the_kinships_and_terms_that_are_asked_for():
    found = learnt_columns(LEARNT, ("framework", "any"), ("context", "depth"))
    kinships = {name.split("|")[0] for name in found}
    terms = {name.split("|")[2] for name in found}
    assert (kinships, terms) == ({"framework", "any"}, {"context", "depth"})
    assert set(found) < set(COLUMNS)


def test_without_near_kinships_a_known_kind_counts_as_its_framework():
    found = learnt_columns(LEARNT, ("framework", "any"))
    assert nearest_kinship(rows("a/1 dlrm", "c/1 dlrm"), found).tolist() == ["framework", "any"]
