"""An evaluation as MLflow shows it."""

import json
import os
from dataclasses import replace
from pathlib import Path

import mlflow
import numpy as np
import pandas as pd
import pytest
from mlflow import MlflowClient

from data.settings import Settings
from pipelines.judged import RUNTIME, Judged, worst_coverage
from pipelines.registering import score_figures
from pipelines.registering.evaluation_log import (
    EXPERIMENT,
    Evaluation,
    drawn,
    has_store,
    log_evaluation,
)

PNG = b"\x89PNG"
ROWS = [
    {"split": "configuration", "n": 60, "r2": 0.9, "baseline_r2": 0.1, "coverage_90": 0.91},
    {"split": "extrapolation:dlperf/hugectr", "n": 40, "r2": -7.0, "coverage_90": 0.8},
    {"split": "jobs_>100@1h", "n": 9, "r2": None, "coverage_90": None},
]


@pytest.fixture
def judged():
    observed = np.linspace(100, 1000, 60)
    rows = pd.DataFrame({"observed": observed, "value": observed * 1.05, "lower": observed * 0.9})
    rows = rows.assign(upper=observed * 1.2, group=["mlp", "cnn"] * 30)
    return Judged("configuration", "memory (MiB)", rows)


@pytest.fixture
def settings(tmp_path):
    return Settings.from_mapping({"COLOCAST_HOME": str(tmp_path / "home")}, tmp_path)


def test_store_is_there_once_something_was_logged(settings, judged):
    assert not has_store(settings)
    run_id = log_evaluation(settings, Evaluation("memory", ROWS, [judged], {"data": "here"}))
    assert has_store(settings)
    client = MlflowClient(tracking_uri=settings.tracking_uri)
    run = client.get_run(run_id)
    assert client.get_experiment_by_name(EXPERIMENT).experiment_id == run.info.experiment_id
    assert run.info.status == "FINISHED"
    assert run.data.metrics["configuration_r2"] == 0.9
    assert run.data.metrics["extrapolation/dlperf/hugectr_r2"] == -7.0
    assert run.data.params["model"] == "memory"
    assert run.data.params["data"] == "here"
    figures = {file.path for file in client.list_artifacts(run_id, "figures")}
    assert "figures/predicted_configuration.png" in figures
    stored = client.download_artifacts(run_id, "rows.json", str(settings.home))
    assert json.loads(Path(stored).read_text()) == ROWS


def test_mlflows_own_evaluator_judges_every_split_on_the_same_run(
    settings, judged, tmp_path, monkeypatch
):
    elsewhere = f"sqlite:///{tmp_path}/elsewhere.db"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", elsewhere)
    both = [judged, replace(judged, split="extrapolation:dlperf/hugectr")]
    run_id = log_evaluation(settings, Evaluation("memory", ROWS, both, {}))
    run = MlflowClient(tracking_uri=settings.tracking_uri).get_run(run_id)
    assert run.data.metrics["configuration_mean_absolute_error"] == pytest.approx(27.5)
    assert run.data.metrics["extrapolation_dlperf_hugectr_example_count"] == 60
    names = {given.dataset.name for given in run.inputs.dataset_inputs}
    assert names == {"held out: configuration", "held out: extrapolation:dlperf/hugectr"}
    assert run.info.status == "FINISHED"
    assert os.environ["MLFLOW_TRACKING_URI"] == elsewhere


def test_what_names_the_store_afterwards_is_the_environment(settings, judged, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "sqlite:///before.db")
    log_evaluation(settings, Evaluation("memory", ROWS, [judged], {}))
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "sqlite:///after.db")
    assert mlflow.get_tracking_uri() == "sqlite:///after.db"


def test_every_split_is_drawn_three_times_beside_the_scores(judged):
    pictures = drawn(Evaluation("memory", ROWS, [judged], {}))
    assert set(pictures) == {
        *("scores.png", "intervals.png", "predicted_configuration.png"),
        *("residuals_configuration.png", "coverage_configuration.png"),
    }
    assert all(picture.startswith(PNG) for picture in pictures.values())


def test_of_runtimes_the_model_is_drawn_and_not_its_baselines(judged, monkeypatch):
    shown = []
    monkeypatch.setattr(
        score_figures, "scores", lambda rows, title, is_log: shown.append((rows, is_log)) or PNG
    )
    rows = [{"split": "all@1h", "n": 60}, {"split": "all@1h/constant", "n": 60}]
    asked = replace(judged, split="all@1h", unit=RUNTIME)
    pictures = drawn(Evaluation("runtime", rows, [asked], {}))
    assert shown == [(rows[:1], True)]
    assert "predicted_all_at_1h.png" in pictures


def test_a_server_counts_as_a_store(tmp_path):
    environ = {"MLFLOW_TRACKING_URI": "http://127.0.0.1:9"}
    assert has_store(Settings.from_mapping(environ, tmp_path))


def test_worst_tenth_leaves_small_groups_out():
    estimates = pd.DataFrame({"lower": np.zeros(50), "upper": np.ones(50)})
    groups = pd.Series(["large"] * 40 + ["small"] * 10)
    observed = np.r_[np.full(40, 0.5), np.full(10, 2.0)]
    assert worst_coverage(observed, estimates, groups) == 1.0
    assert worst_coverage(observed[40:], estimates[40:], groups[40:]) is None
