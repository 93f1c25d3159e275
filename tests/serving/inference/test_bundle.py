import math

import numpy as np
import pandas as pd
import pytest

from data.errors import BadModelError
from serving.inference.bundle import (
    Calibration,
    ModelSpec,
    inside,
    interval_frame,
    spec_from_json,
    spec_json,
)


def spec(scale="identity", floor=0.0, **calibration):
    facts = {"level": 0.9, "default": (-1.0, 2.0), **calibration}
    return ModelSpec(
        name="m",
        features=("a", "b"),
        scale=scale,
        calibration=Calibration(**facts),
        low={"a": 0.0},
        high={"a": 1.0},
        floor=floor,
        example_rows=((0.5, None),),
        example_values=(3.0,),
        facts={"rows": "2"},
    )


def frame(*values, b=math.nan):
    return pd.DataFrame({"a": values, "b": b}, index=range(10, 10 + len(values)))


def test_spec_survives_json():
    original = spec(groups={"pair": (-0.5, 0.5)}, outside=1.5)
    assert spec_from_json(spec_json(original)) == original


def test_digest_follows_the_content():
    assert spec().digest == spec().digest
    assert spec().digest != spec(floor=0.1).digest


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"calibration": {}}'])
def test_strange_spec_is_refused(text):
    with pytest.raises(BadModelError, match=r"spec\.json: found"):
        spec_from_json(text)


def test_interval_surrounds_the_value_by_the_quantiles():
    rows = frame(0.5)
    result = interval_frame(spec(), np.array([10.0]), rows, pd.Series(["any"]))
    assert result.to_dict("list") == {
        "value": [10.0],
        "lower": [9.0],
        "upper": [12.0],
        "in_domain": [True],
    }
    assert list(result.index) == [10]


def test_interval_of_log_scale_is_multiplicative():
    result = interval_frame(spec("log"), np.array([0.0]), frame(0.5), pd.Series(["any"]))
    assert result.loc[10, ["value", "lower", "upper"]].tolist() == pytest.approx(
        [1.0, math.exp(-1), math.exp(2)]
    )


def test_group_has_its_own_quantiles():
    grouped = spec(groups={"tight": (-0.1, 0.1)})
    result = interval_frame(
        grouped, np.array([5.0, 5.0]), frame(0.5, 0.5), pd.Series(["tight", "other"])
    )
    assert result["upper"].tolist() == pytest.approx([5.1, 7.0])


def test_interval_widens_outside_the_training_range():
    result = interval_frame(spec(outside=2.0), np.array([5.0]), frame(1.5), pd.Series(["any"]))
    assert not result.loc[10, "in_domain"]
    assert result.loc[10, ["lower", "upper"]].tolist() == [3.0, 9.0]


def test_nothing_lies_below_the_floor():
    result = interval_frame(spec(floor=6.0), np.array([5.0]), frame(0.5), pd.Series(["any"]))
    assert result.loc[10, ["value", "lower", "upper"]].tolist() == [6.0, 6.0, 7.0]


def test_value_stays_between_bounds_that_lie_on_one_side():
    biased = spec(default=(0.5, 1.0))
    result = interval_frame(biased, np.array([5.0]), frame(0.5), pd.Series(["any"]))
    assert result.loc[10, ["value", "lower", "upper"]].tolist() == [5.0, 5.0, 6.0]


def test_no_rows_give_no_estimates():
    result = interval_frame(spec(), np.array([]), frame(), pd.Series([], dtype="str"))
    assert result.empty


def test_missing_feature_is_inside_and_never_seen_one_is_outside():
    rows = pd.DataFrame({"a": [math.nan, 0.5, 0.5], "b": [math.nan, math.nan, 1.0]})
    assert inside(spec(), rows).tolist() == [True, True, False]
