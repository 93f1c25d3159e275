import contextlib
import errno
import multiprocessing
import sqlite3

import lightgbm
import mlflow
import numpy as np
import pandas as pd
import pytest
from mlflow.exceptions import MlflowException
from sklearn.ensemble import RandomForestRegressor

from data.errors import BadModelError, NoChampionError, RegistryError
from pipelines.registering.errors import registry_errors
from pipelines.registering.loaded_versions import LoadedVersions
from pipelines.registering.registry import Registry
from pipelines.registering.report import TrainingReport
from serving.champions.files import bundle_digest, example_values, read_bundle
from serving.forest.compiled import compiled
from serving.inference.bundle import Bundle, Calibration, ModelSpec

NAME = "colocast-memory"
ROWS = np.array([[1.0, 2.0], [3.0, np.nan], [5.0, 6.0]] * 4)


def bundle_of(estimator, floor=0.0):
    predict = compiled(estimator)
    spec = ModelSpec(
        name=NAME,
        features=("a", "b"),
        scale="identity",
        calibration=Calibration(0.9, (-1.0, 1.0)),
        low={"a": 1.0, "b": 2.0},
        high={"a": 5.0, "b": 6.0},
        floor=floor,
        example_rows=((1.0, 2.0), (3.0, None)),
        example_values=example_values(predict(ROWS[:2])),
        facts={"data_digest": "d"},
    )
    return Bundle(spec, "unregistered", predict, estimator, {"known": pd.DataFrame({"x": [1.0]})})


@pytest.fixture(scope="module")
def forest():
    named = pd.DataFrame(ROWS, columns=["a", "b"])
    return bundle_of(RandomForestRegressor(3, random_state=0).fit(named, ROWS[:, 0]))


@pytest.fixture(scope="module")
def report():
    data = pd.DataFrame({"batch_size": [1.0, 2.0], "framework": ["a", "b"]})
    return TrainingReport(
        params={"trees": "3"},
        metrics={"pair_r2": 0.5},
        dataset=data,
        dataset_name="memory_runs",
        card="# Card\nWhat it is.",
        figures={"one.png": b"PNG"},
        documents={"audit.md": "nothing"},
    )


@pytest.fixture
def registry(settings):
    return Registry(settings.tracking_uri, settings.artifacts_path)


def test_registered_version_reads_back_as_it_was(registry, forest, report):
    version = registry.register(forest, report)
    bundle = registry.load(NAME, version)
    assert bundle.spec == forest.spec
    assert bundle.version == f"{NAME}/1"
    assert (bundle.predict(ROWS) == forest.predict(ROWS)).all()
    assert bundle.tables["known"]["x"].tolist() == [1.0]


def test_a_version_is_fetched_once_where_it_is_kept(settings, forest, report, monkeypatch):
    kept = LoadedVersions()
    registry = Registry(settings.tracking_uri, settings.artifacts_path, kept)
    for _ in range(2):
        registry.promote(NAME, registry.register(forest, report))
    fetched, download = [], Registry.download
    monkeypatch.setattr(
        Registry, "download", lambda self, n, v, to: fetched.append(v) or download(self, n, v, to)
    )
    again = Registry(settings.tracking_uri, settings.artifacts_path, kept)
    bundles = [each.load(NAME, alias) for each in (registry, again)
               for alias in ("champion", "previous", "2")]  # fmt: skip
    assert [bundle.version[-1] for bundle in bundles] == ["2", "1", "2"] * 2
    assert fetched == ["2", "1"]


def test_booster_registers_in_native_text(registry, report, tmp_path):
    options = {"verbose": -1, "min_data_in_leaf": 1}
    booster = lightgbm.train(options, lightgbm.Dataset(ROWS, ROWS[:, 0]), 3)
    version = registry.register(bundle_of(booster), report)
    registry.download(NAME, version, tmp_path)
    assert (tmp_path / "model.lgb").is_file()
    assert (read_bundle(tmp_path, "v").predict(ROWS) == booster.predict(ROWS)).all()


def test_run_holds_all_of_the_report(registry, forest, report, settings):
    registry.register(forest, report)
    client = mlflow.MlflowClient(settings.tracking_uri)
    run = client.get_run(registry.versions(NAME)[0].run_id)
    assert run.data.params == {"trees": "3"}
    assert run.data.metrics == {"pair_r2": 0.5}
    assert run.info.status == "FINISHED"
    assert run.inputs.dataset_inputs[0].dataset.name == "memory_runs"
    files = {file.path for file in client.list_artifacts(run.info.run_id)}
    assert files == {"figures", "audit.md", "model_card.md"}


def test_models_uri_gives_the_whole_layout(
    registry, forest, report, settings, tmp_path, monkeypatch
):
    version = registry.register(forest, report)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", settings.tracking_uri)
    path = mlflow.artifacts.download_artifacts(
        f"models:/{NAME}/{version}", dst_path=str(tmp_path / "copy")
    )
    assert read_bundle(tmp_path / "copy", "v").spec == forest.spec
    answers = mlflow.pyfunc.load_model(path).predict(pd.DataFrame(ROWS, columns=["a", "b"]))
    assert (answers == forest.predict(ROWS)).all()


def test_mlflows_own_evaluate_judges_a_registered_version(
    registry, forest, report, settings, tmp_path, monkeypatch
):
    version = registry.register(forest, report)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", settings.tracking_uri)
    monkeypatch.chdir(tmp_path)
    measured = pd.DataFrame(ROWS, columns=["a", "b"]).assign(measured=forest.predict(ROWS) + 0.5)
    with mlflow.start_run():
        found = mlflow.models.evaluate(
            f"models:/{NAME}/{version}",
            measured,
            targets="measured",
            model_type="regressor",
            evaluator_config={"log_model_explainability": False},
        )
    assert found.metrics["mean_absolute_error"] == pytest.approx(0.5)


def test_version_carries_card_digest_and_facts(registry, forest, report, tmp_path):
    version = registry.register(forest, report)
    registry.download(NAME, version, tmp_path)
    listed = registry.versions(NAME)[0]
    assert listed.digest == bundle_digest(tmp_path)
    assert listed.tags["colocast.data_digest"] == "d"
    assert listed.metrics == {"pair_r2": 0.5}


def test_challenger_run_nests_under_its_parent(registry, forest, report, settings):
    registry.register(forest, report)
    parent = registry.versions(NAME)[0].run_id
    registry.register(forest, report, parent_run_id=parent)
    child = mlflow.MlflowClient(settings.tracking_uri).get_run(registry.versions(NAME)[0].run_id)
    assert child.data.tags["mlflow.parentRunId"] == parent


def test_promotion_moves_the_former_champion_to_previous(registry, forest, report):
    for _ in range(2):
        registry.register(forest, report)
    assert registry.champion(NAME) is None
    registry.promote(NAME, "1")
    assert (registry.champion(NAME), registry.previous(NAME)) == ("1", None)
    registry.promote(NAME, "2")
    assert (registry.champion(NAME), registry.previous(NAME)) == ("2", "1")
    registry.promote(NAME, "2")
    assert registry.previous(NAME) == "1"
    assert registry.rollback(NAME) == "1"
    assert (registry.champion(NAME), registry.previous(NAME)) == ("1", "2")


def test_versions_list_newest_first_with_aliases_and_tags(registry, forest, report):
    for _ in range(2):
        registry.register(forest, report)
    registry.set_alias(NAME, "challenger", "2")
    registry.set_tags(NAME, "2", {"gate": "kept"})
    newest, oldest = registry.versions(NAME)
    assert (newest.version, newest.aliases, newest.tags["gate"]) == ("2", ("challenger",), "kept")
    assert (oldest.version, oldest.aliases) == ("1", ())


def test_unknown_names_and_versions_are_named(registry, forest, report):
    assert registry.versions(NAME) == []
    with pytest.raises(NoChampionError, match="found no version with the alias 'champion'"):
        registry.load(NAME, "champion")
    registry.register(forest, report)
    with pytest.raises(RegistryError, match="found no version '7', wanted one of '1'"):
        registry.promote(NAME, "7")
    with pytest.raises(RegistryError, match="found no version with the alias 'shadow'"):
        registry.load(NAME, "shadow")
    with pytest.raises(RegistryError, match="found no previous champion"):
        registry.rollback(NAME)


def test_damaged_version_is_refused(registry, forest, report, settings):
    version = registry.register(forest, report)
    model = next(settings.artifacts_path.rglob("model.skops"))
    model.write_bytes(model.read_bytes()[:-1] + b"x")
    with pytest.raises(BadModelError, match=r"model\.skops: found SHA-256"):
        registry.load(NAME, version)


def test_failed_registration_leaves_a_failed_run_and_no_version(
    registry, forest, report, settings, monkeypatch
):
    def full(*args, **kwargs):
        raise OSError(errno.ENOSPC, "No space left on device", "/disk/model.skops")

    monkeypatch.setattr("pipelines.registering.run_log.write_model_directory", full)
    with pytest.raises(RegistryError, match=r"No space left on device; free some space"):
        registry.register(forest, report)
    client = mlflow.MlflowClient(settings.tracking_uri)
    experiment = client.get_experiment_by_name(NAME)
    assert [run.info.status for run in client.search_runs([experiment.experiment_id])] == ["FAILED"]
    assert registry.versions(NAME) == []


@pytest.mark.parametrize(
    ("words", "step"),
    [
        ("(sqlite3.OperationalError) database is locked\n[SQL: insert]", "end or await that one"),
        ("API request to x failed: Max retries exceeded", "start the server"),
        ("something strange", "see the log of MLflow"),
    ],
)
def test_failure_of_mlflow_names_the_next_step(words, step):
    with (
        pytest.raises(RegistryError, match=f"sqlite:///x: could not register m: .*{step}"),
        registry_errors("sqlite:///x", "register m"),
    ):
        raise MlflowException(words)


def test_server_that_is_down_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with pytest.raises(RegistryError, match=r"http://127\.0\.0\.1:9: could not open the registry"):
        Registry("http://127.0.0.1:9", tmp_path)


def test_file_that_is_no_database_is_named(tmp_path):
    (tmp_path / "mlflow.db").write_text("not a database, and long enough to be read as one" * 9)
    with pytest.raises(RegistryError, match="file is not a database; move it away"):
        Registry(f"sqlite:///{tmp_path / 'mlflow.db'}", tmp_path)


def opened(home):
    Registry(f"sqlite:///{home / 'mlflow.db'}", home)


@pytest.mark.slow
def test_processes_that_open_a_new_store_at_once_all_succeed(tmp_path):
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=opened, args=(tmp_path,)) for _ in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)
    assert [process.exitcode for process in processes] == [0, 0]
    with contextlib.closing(sqlite3.connect(tmp_path / "mlflow.db")) as store:
        assert store.execute("select count(*) from registered_models").fetchone() == (0,)
