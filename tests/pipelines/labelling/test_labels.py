"""Slowdown labels."""

import pandas as pd
import pytest

from data.errors import MissingBaselineError
from data.importers import gavel, lucid
from data.schemas import LABELS
from pipelines.labelling.labels import baselines, paces, slowdown_labels

RUNS = pd.DataFrame(
    {
        "run_id": ["a1", "a2", "a3", "b1", "ab", "ba"],
        "job_key": ["a", "a", "a", "b", "a", "b"],
        "family": ["A", "A", "A", "B", "A", "B"],
        "gpu_model": ["v100"] * 6,
        "neighbour_key": [None, None, None, None, "b", "a"],
        "is_exclusive": [True, True, True, True, False, False],
        "outcome": ["ok"] * 6,
        "steps_per_s": [10.0, 12.0, 8.0, None, 5.0, None],
        "jct_s": [None, None, None, 20.0, None, 30.0],
    }
)


def runs(row: int | None = None, **changes) -> pd.DataFrame:
    frame = RUNS.copy()
    for column, value in changes.items():
        frame.loc[row, column] = value
    return frame


def test_slowdown_is_exclusive_speed_over_shared_speed():
    labels = slowdown_labels(RUNS).set_index("run_id")["slowdown"]
    assert labels["ab"] == pytest.approx(10 / 5)


def test_jct_serves_where_steps_are_not_counted():
    labels = slowdown_labels(RUNS).set_index("run_id")["slowdown"]
    assert labels["ba"] == pytest.approx(30 / 20)


def test_label_keeps_what_its_baseline_was():
    label = slowdown_labels(RUNS).set_index("run_id").loc["ab"]
    assert label["baseline_run_ids"].split() == ["a1", "a2", "a3"]
    assert (label["baseline_runs"], label["baseline_spread"]) == (3.0, pytest.approx(0.4))


def test_families_of_both_sides_are_named():
    label = slowdown_labels(RUNS).iloc[0]
    assert (label["family"], label["neighbour_family"]) == ("A", "B")


def test_neighbour_without_a_run_is_a_family_of_its_own():
    labels = slowdown_labels(runs(4, neighbour_key="stranger"))
    assert labels["neighbour_family"][0] == "stranger"


@pytest.mark.parametrize(
    ("row", "change"),
    [
        (3, {"is_exclusive": False}),
        (3, {"outcome": "failed"}),
        (3, {"gpu_model": "p100"}),
        (3, {"jct_s": None}),
        (3, {"job_key": "c"}),
    ],
)
def test_only_a_fit_run_of_the_same_job_on_the_same_gpu_model_is_a_baseline(row, change):
    with pytest.raises(MissingBaselineError, match="no exclusive run of 'b'"):
        slowdown_labels(runs(row, **change))


@pytest.mark.parametrize("change", [{"outcome": "oom"}, {"jct_s": None}, {"jct_s": 0.0}])
def test_run_without_an_honest_speed_has_no_label(change):
    assert slowdown_labels(runs(5, **change))["run_id"].tolist() == ["ab"]


def test_steps_of_one_run_are_not_set_against_the_jct_of_another():
    with pytest.raises(MissingBaselineError, match="'b'"):
        slowdown_labels(runs(5, jct_s=None, steps_per_s=3.0))


def test_no_colocated_run_gives_an_empty_table():
    labels = slowdown_labels(RUNS.head(4))
    assert labels.empty
    assert labels.columns.tolist() == LABELS.names


def test_pace_is_seconds_a_step_or_a_job():
    assert paces(RUNS)["pace"].tolist() == [0.1, 1 / 12, 0.125, 20.0, 0.2, 30.0]
    assert paces(RUNS)["measure"].tolist() == ["steps_per_s"] * 3 + [
        "jct_s",
        "steps_per_s",
        "jct_s",
    ]


def test_baseline_of_a_measure_that_no_run_has_is_empty():
    assert baselines(RUNS.drop(columns="jct_s"), "jct_s").empty


def test_public_pairs_are_all_labelled(public_data):
    measured = lucid.read(public_data / "lucid")["profiling_runs"]
    labels = slowdown_labels(measured)
    assert len(labels) == 2 * 922
    assert labels["slowdown"].max() == pytest.approx(1 / 0.444)
    simulated = gavel.read(public_data / "gavel")["profiling_runs"]
    assert slowdown_labels(simulated)["slowdown"].max() == pytest.approx(10.97, abs=0.01)
