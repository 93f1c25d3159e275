"""Which pairs to measure next."""

import numpy as np
import pandas as pd
import pytest

from data.errors import SettingError
from data.sample_data import sample_runs
from features.profiles import profiles
from pipelines.interference.next_pairs import next_pairs
from pipelines.labelling.audit import audited
from pipelines.labelling.label_effects import unordered


@pytest.fixture(scope="module")
def labels():
    return audited(sample_runs()).labels


@pytest.fixture(scope="module")
def table():
    return profiles(sample_runs())


def test_chosen_pairs_were_not_measured_and_lower_what_is_unknown(labels, table):
    found = next_pairs(labels, table, 6, seed=0)
    both = pd.concat([labels, found], ignore_index=True)
    number = unordered(both)
    assert not np.isin(number[len(labels) :], number[: len(labels)]).any()
    assert len(set(number[len(labels) :])) == 6
    assert (found["error_share"].diff().dropna() < 0).all()
    assert found["error_share"].between(0, 1).all()


@pytest.mark.parametrize("rows", [0, 6])
def test_little_or_nothing_measured_is_enough(labels, table, rows):
    assert len(next_pairs(labels.head(rows), table, 3, seed=0)) == 3


def test_only_candidates_are_chosen(labels, table):
    some = labels.head(12)
    found = next_pairs(labels.tail(100), table, 50, seed=0, candidates=some)
    wanted = set(unordered(pd.concat([some, found], ignore_index=True))[:12])
    assert set(unordered(pd.concat([some, found], ignore_index=True))[12:]) <= wanted


def test_nothing_left_to_measure_is_an_empty_answer(labels, table):
    found = next_pairs(labels, table, 2, seed=0, candidates=labels)
    assert found.columns.tolist() == ["job_key", "neighbour_key", "gpu_model", "error_share"]
    assert found.empty


def test_no_pair_asked_for_is_refused(labels, table):
    with pytest.raises(SettingError, match="at least 1, got 0"):
        next_pairs(labels, table, 0, seed=0)


@pytest.mark.parametrize("new", ["json-stream", "mlp-256-input-slow", "sqlite-90k"])
def test_the_only_job_that_was_never_measured_comes_first(labels, table, new):
    is_known = (labels[["job_key", "neighbour_key"]] != new).all(axis=1)
    found = next_pairs(labels[is_known], table[table["job_key"].isin(labels["job_key"])], 1, seed=0)
    assert new in found.loc[0, ["job_key", "neighbour_key"]].tolist()
