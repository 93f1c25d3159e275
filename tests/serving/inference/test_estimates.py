import numpy as np
import pandas as pd
import pytest

from data.errors import BadModelError
from serving.inference.estimates import LARGEST, estimates_from


def frame(value):
    row = {"value": value, "lower": 0.0, "upper": value, "in_domain": True, "source": "model"}
    return pd.DataFrame([row])


def test_infinity_is_cut_to_what_json_holds():
    (estimate,) = estimates_from(frame(np.inf), "m/1")
    assert estimate.upper == LARGEST


def test_answer_that_is_no_number_is_an_error_that_names_the_version():
    with pytest.raises(BadModelError, match="m/1: found an answer that is no number"):
        estimates_from(frame(np.nan), "m/1")
