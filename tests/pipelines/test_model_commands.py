"""The commands that make, measure and point at models, from the shell's side."""

import json

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from sklearn.ensemble import RandomForestRegressor

from data.errors import RegistryError, SettingError
from pipelines import evaluate, train
from pipelines.cli import group
from pipelines.registering.model_spec import filled_spec
from pipelines.registering.registry import Registry
from pipelines.registering.report import TrainingReport
from serving.forest.compiled import compiled
from serving.inference.bundle import Bundle

NAME = "colocast-memory"


def small_model(settings, data):
    rows = pd.DataFrame({"batch_size": [1.0, 2.0, 3.0, 4.0]})
    forest = RandomForestRegressor(2, random_state=0).fit(rows, rows["batch_size"])
    predict = compiled(forest)
    bundle = Bundle(filled_spec(NAME, rows, predict, floor=0.0), "new", predict, forest)
    return [(bundle, TrainingReport({"seed": "0"}, {"pair_r2": 0.5}, rows, "rows", "# card"))]


@pytest.fixture
def colocast(settings, monkeypatch):
    monkeypatch.setenv("COLOCAST_HOME", str(settings.home))
    monkeypatch.setattr(train, "TRAINERS", dict.fromkeys(train.TRAINERS, small_model))

    def run(*arguments):
        result = CliRunner().invoke(group, arguments, catch_exceptions=False)
        assert result.exit_code == 0, result.output
        return result.stdout

    return run


def test_first_version_becomes_champion_and_later_ones_wait(colocast):
    assert colocast("train", "memory") == f"{NAME} 1 is champion\n"
    assert colocast("train", "memory") == f"{NAME} 2 is challenger\n"
    assert colocast("train", "memory", "--promote") == f"{NAME} 3 is champion\n"


def test_secret_that_cannot_be_read_hides_no_version(colocast, monkeypatch, tmp_path):
    monkeypatch.setenv("COLOCAST_PUSH_SECRET_FILE", str(tmp_path / "absent"))
    result = CliRunner().invoke(group, ["train", "memory"])
    assert isinstance(result.exception, SettingError)
    assert result.stdout == f"{NAME} 1 is champion\n"


def test_missing_trains_only_what_has_no_champion(colocast):
    colocast("train", "memory")
    assert colocast("train", "memory", "--missing") == ""


def test_promotion_and_rollback_say_what_served_before(colocast, settings):
    colocast("train", "memory")
    colocast("train", "memory")
    assert colocast("promote", NAME, "2") == f"{NAME}: champion 2, before 1\n"
    assert colocast("rollback", NAME) == f"{NAME}: champion 1, before 2\n"
    registry = Registry(settings.tracking_uri, settings.artifacts_path)
    assert registry.tags(NAME, "2")["colocast.rolled_back"] == "by hand: colocast rollback"
    assert "colocast.rolled_back" not in registry.tags(NAME, "1")


def test_unknown_version_is_refused(colocast):
    colocast("train", "memory")
    with pytest.raises(RegistryError, match="found no version '9', wanted one of '1'"):
        colocast("promote", NAME, "9")


def test_models_are_listed_with_aliases_and_metrics(colocast, tmp_path):
    assert colocast("models") == "no registered versions; train one: colocast train all\n"
    colocast("train", "memory")
    path = tmp_path / "models.json"
    line = colocast("models", "--json", str(path))
    assert NAME in line
    assert "champion" in line
    assert "pair_r2 0.5" in line
    (row,) = json.loads(path.read_text())
    assert (row["version"], row["aliases"], row["metrics"]) == ("1", ["champion"], {"pair_r2": 0.5})


ROW = dict.fromkeys(["split", "n", "r2", "baseline_r2"])


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [((), [{**ROW, "split": "pair"}]), (("--train", "a", "--test", "b"), {**ROW, "split": "pair"})],
    ids=["a list of splits", "one object for a test set"],
)
def test_evaluation_is_a_table_and_flat_json(colocast, tmp_path, monkeypatch, arguments, expected):
    monkeypatch.setattr(
        evaluate,
        "EVALUATIONS",
        {"memory": lambda question, settings, keep: [{**ROW, "split": "pair"}]},
    )
    path = tmp_path / "out.json"
    shown = colocast("evaluate", "memory", *arguments, "--json", str(path))
    assert shown.splitlines()[0].split()[:3] == ["split", "n", "r2"]
    assert shown.splitlines()[1].split()[:3] == ["pair", "-", "-"]
    assert json.loads(path.read_text()) == expected


@pytest.mark.parametrize("model", ["memory", "demand"])
def test_given_files_are_read_by_the_importers(colocast, tmp_path, model):
    from data.sample_data import sample_runs
    from data.tables import write_tables
    from pipelines.initial_tables import sample_structures
    from pipelines.labelling.from_runs import memory_runs_from_runs

    runs = memory_runs_from_runs(sample_runs(), sample_structures())
    parts = np.arange(len(runs)) % 10 < 5  # whole programs: five runs each
    for name, part in (("train", parts), ("test", ~parts)):
        write_tables({"memory_runs": runs[part].reset_index(drop=True)}, tmp_path / name)
    path = tmp_path / "out.json"
    sides = ("--train", str(tmp_path / "train"), "--test", str(tmp_path / "test"))
    colocast("evaluate", model, *sides, "--json", str(path))
    found = json.loads(path.read_text())
    assert (found["split"], found["n"]) == ("given", int((~parts).sum()))


@pytest.mark.parametrize("model", ["runtime", "memory", "demand"])
def test_trainers_make_the_models_that_they_are_named_for(settings, model):
    trained = train.TRAINERS[model](settings, None)  # from the embedded sample
    assert tuple(bundle.spec.name for bundle, _ in trained) == train.REGISTERED_NAMES[model]
    for bundle, report in trained:
        assert bundle.spec.facts["rows"] == str(len(report.dataset))
        assert bundle.spec.name in report.card


def test_runtime_is_evaluated_by_finish_time(colocast, tmp_path):
    path = tmp_path / "out.json"
    colocast("evaluate", "runtime", "--json", str(path))
    rows = json.loads(path.read_text())
    assert {"split", "n", "r2_log", "within_2x", "baseline_r2", "ceiling_r2"} <= set(rows[0])
    assert rows[0]["split"] == "all"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("memory", "--train", "x"), "found only one of --train and --test"),
        (("memory", "--train", "x", "--test", "y", "--split", "pair"), "with --data or --split"),
        (("runtime", "--train", "x", "--test", "y"), "runtime takes no --train and --test"),
        (("runtime", "--split", "pair"), "runtime has one split"),
        (("memory", "--split", "random"), "found the split 'random'"),
    ],
)
def test_questions_without_an_answer_are_refused(colocast, arguments, message):
    with pytest.raises(SettingError, match=message):
        colocast("evaluate", *arguments)
