import numpy as np
import pandas as pd
import pytest

from features.digests import NO_KEY, joined_digests, row_digests


def test_equal_rows_have_equal_digests_whatever_surrounds_them():
    text, number = pd.Series(["a", "b", "a"]), pd.Series([1.0, 1.0, 1.0])
    digests = row_digests([text, number])
    assert digests[0] == digests[2] != digests[1]
    assert row_digests([text[2:], number[2:]])[0] == digests[0]


def test_whole_numbers_are_the_same_in_either_type():
    assert (
        row_digests([pd.Series([0, 2])]).tolist() == row_digests([pd.Series([0.0, 2.0])]).tolist()
    )


@pytest.mark.parametrize("values", [[None, "x"], [np.nan, "x"]])
def test_a_missing_text_is_no_key(values):
    digests = row_digests([pd.Series(values, dtype="str"), pd.Series([1.0, 1.0])])
    assert digests[0] == NO_KEY != digests[1]


def test_a_missing_number_and_an_empty_text_are_values_like_any_other():
    assert (row_digests([pd.Series([np.nan, 0.0])]) != NO_KEY).all()
    assert (row_digests([pd.Series(["", "x"])]) != NO_KEY).all()


def test_the_order_of_columns_matters():
    one, two = np.array([3], np.uint64), np.array([4], np.uint64)
    assert joined_digests([one, two])[0] != joined_digests([two, one])[0]
