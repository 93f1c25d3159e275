from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from mlflow import MlflowClient
from sklearn.linear_model import LinearRegression

from data.domain import FinishedJob, Outcome
from data.errors import RegistryError, SettingError
from pipelines.registering.registry import Registry
from pipelines.registering.report import TrainingReport
from pipelines.retraining.challenge import LessonChallenger
from pipelines.retraining.finished_jobs import FinishedJobs
from pipelines.retraining.lessons import Answers
from pipelines.retraining.parent_run import EXPERIMENT, RetrainRun
from pipelines.retraining.state import Cause
from serving.champions.files import example_values
from serving.forest.compiled import compiled
from serving.inference.bundle import Bundle, Calibration, ModelSpec

NAMES = ("colocast-runtime-cluster", "colocast-runtime-user")
ROWS = np.array([[0.0], [1.0]])
REPORT = TrainingReport({"seed": "1"}, {"newest_r2": 0.5}, pd.DataFrame({"a": [1.0]}), "d", "# C")


NEWS = Cause("20 new jobs to learn from, wanted 16")


def log_of(n, joblog="log"):
    jobs = [
        FinishedJob(str(i), 1, "ada", "q", "bert", 1, 0.0, 0.0, 9.0 + i, Outcome.OK)
        for i in range(1, n + 1)
    ]
    return FinishedJobs(joblog, list(range(1, n + 1)), jobs)


def bundle(name, error):
    """A model whose answers are `error` off, so that a test can say how good it is."""
    estimator = LinearRegression().fit(ROWS, np.full(2, error))
    predict = compiled(estimator)
    spec = ModelSpec(
        name, ("a",), "identity", Calibration(0.9, (-1.0, 1.0)), {"a": 0.0}, {"a": 1.0}, -9.0,
        ((0.0,), (1.0,)), example_values(predict(ROWS)), {"data_digest": "d"},
    )  # fmt: skip
    return Bundle(spec, "unregistered", predict, estimator)


class Lesson:
    """Rows 1 to n of a log; the trained models are `error` off."""

    def __init__(self, n, error, names=NAMES):
        self.models, self.error = names, error
        self.sequences = np.arange(1, n + 1)
        self.groups = self.sequences.astype(np.str_)
        self.asked = []

    def trained(self, until):
        self.asked.append(until)
        if isinstance(self.error, Exception):
            raise self.error
        return [(bundle(name, self.error), REPORT) for name in self.models]

    def trial(self, until):
        return []

    def answers(self, bundles, after):
        fresh = int((self.sequences > after).sum())
        off = float(bundles[0].predict(ROWS[:1])[0])
        return Answers(np.full(fresh, off), np.full(fresh, off < 1))


@pytest.fixture
def registry(settings):
    return Registry(settings.tracking_uri, settings.artifacts_path)


@pytest.fixture
def challenge(settings, registry):
    def make(*lessons, joblog="log", cause=NEWS, **more):
        run = RetrainRun(settings.tracking_uri, settings.artifacts_path)
        challenger = LessonChallenger(lambda: registry, run, lambda _: lessons, **more)
        return challenger(log_of(99, joblog), cause)

    return make


def champion(registry, error):
    for name in NAMES:
        registry.promote(name, registry.register(bundle(name, error), REPORT))


def test_a_better_challenger_becomes_champion_and_the_old_one_stays_previous(registry, challenge):
    champion(registry, 0.5)
    made = challenge(Lesson(20, 0.2))
    assert [(c.model, c.version, c.previous, c.verdict.promote) for c in made] == [
        (name, "2", "1", True) for name in NAMES
    ]
    for name in NAMES:
        assert (registry.champion(name), registry.previous(name)) == ("2", "1")
        assert registry.load(name, "challenger").version == f"{name}/2"


def test_a_worse_challenger_is_registered_but_the_champion_stays(registry, challenge):
    champion(registry, 0.2)
    made = challenge(Lesson(20, 0.5))
    assert [(c.version, c.verdict.promote) for c in made] == [("2", False)] * 2
    assert made[0].verdict.reason.startswith("worse on 10 rows")
    assert {registry.champion(name) for name in NAMES} == {"1"}
    tags = registry.versions(NAMES[0])[0].tags
    assert tags["colocast.gate"] == "refused"
    assert tags["colocast.gate_reason"] == made[0].verdict.reason
    assert tags["colocast.previous_champion"] == "1"


class Tried(Lesson):
    """One whose values are known before its intervals."""

    def trial(self, until):
        return [bundle(name, self.error) for name in self.models]


def test_a_challenger_that_its_values_refuse_is_neither_calibrated_nor_registered(
    registry, challenge, settings
):
    champion(registry, 0.2)
    lesson = Tried(20, 0.5)
    made = challenge(lesson, shadow_rows=8)
    assert [(c.version, c.previous, c.stage) for c in made] == [(None, "1", "kept")] * 2
    assert made[0].verdict.reason == challenge(Lesson(20, 0.5))[0].verdict.reason
    assert np.isnan(made[0].verdict.coverage)
    assert lesson.asked == []
    client = MlflowClient(settings.tracking_uri)
    experiment = client.get_experiment_by_name(EXPERIMENT)
    reasons = [r.data.params["reason"] for r in client.search_runs([experiment.experiment_id])]
    assert reasons == [made[0].verdict.reason] * 2


def test_a_challenger_whose_values_pass_is_calibrated_on_all_rows_for_its_shadow_run(
    registry, challenge
):
    champion(registry, 0.5)
    lesson = Tried(20, 0.2)
    made = challenge(lesson, shadow_rows=8)
    assert lesson.asked == [20]
    assert (made[0].version, made[0].stage, made[0].verdict.rows) == ("2", "shadow", 10)


def test_without_a_shadow_run_the_gate_judges_intervals_too(registry, challenge):
    champion(registry, 0.5)
    lesson = Tried(20, 0.2)
    made = challenge(lesson)
    assert lesson.asked == [10]
    assert (made[0].stage, made[0].verdict.coverage) == ("promoted", 1.0)


def test_where_one_champion_is_missing_the_first_versions_are_promoted(registry, challenge):
    registry.promote(NAMES[0], registry.register(bundle(NAMES[0], 0.1), REPORT))
    made = challenge(Lesson(20, 0.4))
    assert made[0].verdict.reason == "the first version: mean error 0.400 on 10 rows"
    assert [registry.champion(name) for name in NAMES] == ["2", "1"]


def test_models_are_children_of_one_run_that_holds_the_verdict(registry, challenge, settings):
    challenge(Lesson(20, 0.4))
    client = MlflowClient(settings.tracking_uri)
    experiment = client.get_experiment_by_name(EXPERIMENT)
    (parent,) = client.search_runs([experiment.experiment_id])
    assert parent.info.status == "FINISHED"
    assert parent.data.params["models"] == ",".join(NAMES)
    assert parent.data.params["cause"] == NEWS.reason
    assert parent.info.run_name == f"{' and '.join(NAMES)}: new evidence"
    files = client.list_artifacts(parent.info.run_id, "figures")
    assert [file.path for file in files] == ["figures/error_over_time.png"]
    assert parent.data.metrics["challenger_error"] == pytest.approx(0.4)
    for name in NAMES:
        run = client.get_run(registry.versions(name)[0].run_id)
        assert run.data.tags["mlflow.parentRunId"] == parent.info.run_id
        assert run.data.metrics["gate_coverage"] == 1.0


def test_a_version_says_what_it_learnt_and_the_next_one_is_judged_beyond(registry, challenge):
    challenge(Lesson(20, 0.4))
    facts = registry.load(NAMES[0], "champion").spec.facts
    assert (facts["joblog"], facts["joblog_sequence"], facts["production_rows"]) == (
        "log", "10", "10",
    )  # fmt: skip
    following = Lesson(40, 0.3)
    challenge(following)
    assert following.asked == [25]  # rows 11 to 40 are new to the champion, 26 to 40 judge


def test_positions_in_another_log_count_for_nothing(registry, challenge):
    challenge(Lesson(20, 0.4))
    other = Lesson(20, 0.3)
    challenge(other, joblog="other")
    assert other.asked == [10]


def test_too_few_new_rows_train_nothing_and_say_so_in_mlflow(registry, challenge, settings):
    champion(registry, 0.2)
    lesson = Lesson(15, 0.1)
    made = challenge(lesson)
    assert [(c.version, c.previous) for c in made] == [(None, "1")] * 2
    assert made[0].verdict.reason == "only 7 new rows to judge by, wanted 8"
    assert lesson.asked == []
    client = MlflowClient(settings.tracking_uri)
    experiment = client.get_experiment_by_name(EXPERIMENT)
    (parent,) = client.search_runs([experiment.experiment_id])
    assert parent.info.status == "FINISHED"
    assert parent.data.params["reason"] == made[0].verdict.reason


@pytest.mark.parametrize("error", [SettingError("too few"), ValueError("bad"), OverflowError("x")])
def test_a_lesson_that_cannot_be_learnt_keeps_the_champion_and_the_next_lesson_goes_on(
    registry, challenge, error
):
    alone = ("colocast-memory",)
    made = challenge(Lesson(20, error), Lesson(20, 0.1, alone))
    assert [(c.model, c.version) for c in made] == [
        (NAMES[0], None), (NAMES[1], None), (alone[0], "1"),
    ]  # fmt: skip
    assert made[0].verdict.reason == f"not trained: {error}"


def test_a_registry_that_fails_midway_leaves_the_champion_and_a_failed_run(
    registry, challenge, monkeypatch, settings
):
    champion(registry, 0.5)

    def refuse(*arguments):
        raise RegistryError("MLflow is down")

    monkeypatch.setattr(registry, "set_alias", refuse)
    with pytest.raises(RegistryError, match="MLflow is down"):
        challenge(Lesson(20, 0.1))
    assert {registry.champion(name) for name in NAMES} == {"1"}
    client = MlflowClient(settings.tracking_uri)
    experiment = client.get_experiment_by_name(EXPERIMENT)
    assert client.search_runs([experiment.experiment_id])[0].info.status == "FAILED"


def test_a_store_that_is_out_of_reach_is_a_registry_error(registry, settings, tmp_path):
    (tmp_path / "broken.db").write_bytes(b"no database" * 100)
    run = RetrainRun(f"sqlite:///{tmp_path}/broken.db", tmp_path)
    challenger = LessonChallenger(lambda: registry, run, lambda _: [Lesson(20, 0.1)])
    with pytest.raises(RegistryError, match="could not log the retraining"):
        challenger(log_of(20), NEWS)


def test_the_registry_is_written_behind_the_shield(registry, challenge):
    states = []

    @contextmanager
    def shield():
        states.append(registry.champion(NAMES[0]))
        yield
        states.append(registry.champion(NAMES[0]))

    challenge(Lesson(20, 0.4), shield=shield)
    assert states == [None, "1"]


def test_a_damaged_champion_is_replaced(registry, challenge, monkeypatch, caplog):
    champion(registry, 0.1)
    load = registry.load

    def damaged(name, alias):
        from data.errors import BadModelError

        if alias == "champion":
            raise BadModelError("digest differs")
        return load(name, alias)

    monkeypatch.setattr(registry, "load", damaged)
    made = challenge(Lesson(20, 0.4))
    assert made[0].verdict.promote
    assert "event=no_champion" in caplog.text
    assert replace(made[0], model="x").previous == "1"


def test_after_a_drift_only_rows_since_it_began_judge(registry, challenge):
    champion(registry, 0.5)
    lesson = Lesson(40, 0.2)
    made = challenge(lesson, cause=Cause("error of all changed", since=21))
    assert lesson.asked == [30]  # of 21 to 40, half
    assert made[0].verdict.rows == 10
    assert registry.versions(NAMES[0])[0].tags["colocast.cause"] == "error of all changed"


def test_a_challenger_that_passed_first_answers_in_the_shadow(registry, challenge):
    champion(registry, 0.5)
    made = challenge(Lesson(20, 0.2), shadow_rows=8)
    assert [c.stage for c in made] == ["shadow", "shadow"]
    for name in NAMES:
        assert (registry.champion(name), registry.aliased(name, "shadow")) == ("1", "2")
        assert registry.tags(name, "2")["colocast.shadow_since"] == "99"


def test_what_passed_learns_from_all_rows_before_it_shadows(registry, challenge):
    champion(registry, 0.5)
    lesson = Lesson(20, 0.2)
    made = challenge(lesson, shadow_rows=8)
    assert lesson.asked == [10, 20]
    assert (made[0].verdict.rows, made[0].version) == (10, "2")
    facts = registry.load(NAMES[0], "2").spec.facts
    assert (facts["joblog_sequence"], facts["production_rows"]) == ("20", "20")


def test_what_is_promoted_at_once_is_the_version_that_was_judged(registry, challenge):
    champion(registry, 0.5)
    lesson = Lesson(20, 0.2)
    challenge(lesson)
    assert lesson.asked == [10]


def test_a_first_version_has_nobody_to_shadow(registry, challenge):
    assert [c.stage for c in challenge(Lesson(20, 0.4), shadow_rows=8)] == ["promoted"] * 2
