from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from data.errors import UnknownProfileError
from features.pairs import PAIR_COLUMNS
from pipelines.interference.cold_start import cold_start_table
from serving.inference.bundle import Bundle, Calibration, ModelSpec
from serving.inference.interference import novelty, slowdown_estimates

PROFILES = pd.DataFrame(
    {
        "job_key": ["a", "b", "c", "d"],
        "gpu_model": "v100",
        "family": ["f", "f", "g", "h"],
        "gpu_util_mean": [0.2, 0.9, 0.9, 0.4],
    }
)
SEEN = pd.DataFrame({"job_key": ["a", "b"], "family": ["f", "g"]})
LABELS = pd.DataFrame(
    {
        "job_key": ["a"] * 12 + ["b"] * 12,
        "neighbour_key": ["b"] * 12 + ["a"] * 12,
        "gpu_model": "v100",
        "slowdown": [1.1] * 12 + [1.5] * 12,
    }
)
WIDTHS = {"pair": (-0.1, 0.1), "configuration": (-0.2, 0.2), "pair/v100": (-0.05, 0.05)}


def utilisation_of_neighbour(rows):
    return rows[:, PAIR_COLUMNS.index("gpu_util_mean_neighbour")]


@pytest.fixture
def bundle():
    spec = ModelSpec(
        name="colocast-interference",
        features=PAIR_COLUMNS,
        scale="identity",
        calibration=Calibration(0.9, (-0.4, 0.4), WIDTHS, outside=2.0),
        low=dict.fromkeys(PAIR_COLUMNS, 0.0),
        high=dict.fromkeys(PAIR_COLUMNS, 2.0),
        floor=0.1,
    )
    tables = {"profiles": PROFILES, "seen": SEEN, "cold_start": cold_start_table(LABELS)}
    return Bundle(spec, "colocast-interference/3", utilisation_of_neighbour, None, tables)


def pairs(*rows, index=None):
    columns = ["job_key", "neighbour_key", "gpu_model"]
    return pd.DataFrame(rows, columns=columns, index=index)


def test_estimates_are_of_the_job_beside_its_neighbour(bundle):
    found = slowdown_estimates(bundle, pairs(("a", "b", "v100"), ("b", "a", "v100"), index=[7, 3]))
    assert found["value"].tolist() == [0.9, 0.2]
    assert found.index.tolist() == [7, 3]
    assert (found["source"] == "model").all()
    assert found["in_domain"].all()


@pytest.mark.parametrize(
    ("neighbour", "half_width"),
    [("b", 0.05), ("c", 0.2), ("d", 0.4)],
    ids=["both learnt from", "family learnt from", "family is new"],
)
def test_interval_widens_with_the_novelty_of_the_pair(bundle, neighbour, half_width):
    found = slowdown_estimates(bundle, pairs(("a", neighbour, "v100")))
    assert (found["upper"] - found["value"]).tolist() == pytest.approx([half_width])


def test_interval_is_that_of_the_slowed_jobs_family(bundle):
    groups = {**WIDTHS, "pair/v100 of f": (-0.01, 0.03), "configuration of f": (-0.1, 0.1)}
    calibration = replace(bundle.spec.calibration, groups=groups)
    own = replace(bundle, spec=replace(bundle.spec, calibration=calibration))
    found = slowdown_estimates(own, pairs(("a", "b", "v100"), ("a", "c", "v100")))
    assert (found["upper"] - found["value"]).tolist() == pytest.approx([0.03, 0.1])


@pytest.mark.parametrize(("met", "kind"), [("f", "pair"), ("g", "family_pair")])
def test_families_that_were_never_learnt_together_are_a_kind_of_their_own(bundle, met, kind):
    families = pd.DataFrame({"family": [met], "neighbour_family": [met]})
    apart = replace(bundle, tables={**bundle.tables, "seen_families": families})
    assert novelty(apart, np.array([[0, 1]])).tolist() == [kind]


@pytest.mark.parametrize(
    ("neighbours", "kind"), [(1, "few_measured"), (2, "few_measured"), (3, "measured")]
)
def test_a_new_job_is_less_new_once_it_was_measured(bundle, neighbours, kind):
    counts = pd.DataFrame({"job_key": "d", "gpu_model": "v100", "neighbours": [neighbours]})
    measured = replace(bundle, tables={**bundle.tables, "measured": counts})
    row = PROFILES.index[(PROFILES["job_key"] == "d") & (PROFILES["gpu_model"] == "v100")][0]
    assert novelty(measured, np.array([[0, row]])).tolist() == [kind]


@pytest.fixture
def elsewhere(bundle):
    """Learnt on V100 alone, asked about jobs that ran alone on an A100."""
    profiles = pd.concat([PROFILES, PROFILES.assign(gpu_model="a100")], ignore_index=True)
    groups = {**bundle.spec.calibration.groups, "gpu_model": (-0.8, 0.8)}
    calibration = replace(bundle.spec.calibration, groups=groups)
    tables = {**bundle.tables, "profiles": profiles, "seen": SEEN.assign(gpu_model="v100")}
    return replace(bundle, spec=replace(bundle.spec, calibration=calibration), tables=tables)


def test_a_new_gpu_model_is_outside_and_answered_wider(elsewhere):
    found = slowdown_estimates(elsewhere, pairs(("a", "b", "v100"), ("a", "b", "a100")))
    assert found["in_domain"].tolist() == [True, False]
    assert (found["upper"] - found["value"]).tolist() == pytest.approx([0.05, 0.8])


def test_jobs_measured_on_a_new_gpu_model_are_no_longer_new_there(elsewhere):
    counts = pd.DataFrame({"job_key": ["a", "b"], "gpu_model": "a100", "neighbours": [3, 3]})
    measured = replace(elsewhere, tables={**elsewhere.tables, "measured": counts})
    assert novelty(measured, np.array([[4, 5], [4, 6]])).tolist() == ["measured", "gpu_model"]


def test_without_a_record_of_what_was_learnt_everything_is_new(bundle):
    tables = {name: table for name, table in bundle.tables.items() if name != "seen"}
    found = slowdown_estimates(replace(bundle, tables=tables), pairs(("a", "b", "v100")))
    assert (found["upper"] - found["value"]).tolist() == pytest.approx([0.4])


@pytest.mark.parametrize(
    ("pair", "value"),
    [
        (("new", "b", "v100"), 1.1),
        (("b", "new", "v100"), 1.5),
        (("new", "newer", "v100"), 1.3),
        (("new", "newer", "h100"), 1.3),
        (("new", "c", "v100"), 1.3),
    ],
    ids=["beside b", "of b", "of all on that GPU model", "of all", "c was never beside any"],
)
def test_unknown_job_gets_what_was_measured_of_the_known_one(bundle, pair, value):
    found = slowdown_estimates(bundle, pairs(pair)).iloc[0]
    assert found["value"] == pytest.approx(value)
    assert (found["source"], found["in_domain"]) == ("cold_start", False)
    assert found["lower"] <= found["value"] <= found["upper"]


def test_known_and_unknown_pairs_keep_their_order(bundle):
    asked = pairs(("new", "b", "v100"), ("a", "b", "v100"), ("b", "new", "v100"), index=[2, 0, 1])
    found = slowdown_estimates(bundle, asked)
    assert found.index.tolist() == [2, 0, 1]
    assert found["source"].tolist() == ["cold_start", "model", "cold_start"]


def test_unknown_job_can_be_refused(bundle):
    asked = pairs(("a", "b", "v100"), ("a", "new", "v100"), ("a", "b", "h100"))
    with pytest.raises(UnknownProfileError, match="no exclusive profile of 'a', 'b', 'new'"):
        slowdown_estimates(bundle, asked, unknown="refuse")


def test_profiles_may_be_replaced_by_those_of_other_jobs(bundle):
    table = PROFILES.assign(job_key=["w", "x", "y", "z"])
    other = replace(bundle, tables={**bundle.tables, "profiles": table})
    assert slowdown_estimates(other, pairs(("w", "x", "v100")))["value"].tolist() == [0.9]


def test_no_pairs_give_no_estimates(bundle):
    found = slowdown_estimates(bundle, pairs())
    assert found.empty
    assert found.columns.tolist() == ["value", "lower", "upper", "in_domain", "source"]


def test_input_stays_as_it_was(bundle):
    asked = pairs(("a", "b", "v100"), ("new", "b", "v100"))
    before = asked.copy(deep=True)
    slowdown_estimates(bundle, asked)
    pd.testing.assert_frame_equal(asked, before)
    assert np.isfinite(slowdown_estimates(bundle, asked)[["value", "lower", "upper"]]).all(None)
