import json
import os
import signal
import subprocess
import sys
from functools import partial

import pytest
from click.testing import CliRunner

from data.domain import REGISTERED_MODELS
from data.joblog import JobLog
from data.settings import Settings
from data.tables import write_tables
from pipelines.commands.retrain import command
from pipelines.interference import training
from pipelines.interference.fit import ForestOptions
from pipelines.interference.training import train_interference
from pipelines.registering.registry import Registry
from pipelines.retraining.report import LOG
from pipelines.retraining.retrainer import only_one
from tests.pipelines.sample_jobs import divided


@pytest.fixture
def environment(settings):
    known, finished = divided(60, 40, known_together=20)
    write_tables({"profiling_runs": known}, settings.imports_path / "sample")
    with JobLog(settings.joblog_url) as log:
        log.append(finished.jobs)
    return {"COLOCAST_HOME": str(settings.home)}


@pytest.fixture(autouse=True)
def log_as_before():
    before = LOG.handlers, LOG.level, LOG.propagate
    yield
    LOG.handlers, LOG.level, LOG.propagate = before


def retrain(environment, *arguments):
    return CliRunner().invoke(command, ["--once", *arguments], env=environment)


@pytest.mark.slow
def test_one_pass_retrains_every_kind_from_the_log_and_the_next_finds_nothing(
    settings: Settings, environment, tmp_path, monkeypatch, push_environ, push_receiver
):
    small = partial(train_interference, options=ForestOptions(trees=20, folds=2))
    monkeypatch.setattr(training, "train_interference", small)
    path = tmp_path / "challenges.json"
    found = retrain({**environment, **push_environ}, "--min-jobs", "90", "--json", str(path))
    assert (found.exit_code, found.stdout) == (0, "5 models challenged\n"), found.output
    rows = json.loads(path.read_text())
    assert {row["model"] for row in rows} == set(REGISTERED_MODELS)
    registry = Registry(settings.tracking_uri, settings.artifacts_path)
    for row in rows:
        assert (row["version"], row["previous"]) == ("1", None)
        assert (registry.champion(row["model"]) == "1") == row["promote"], row["reason"]
        assert (
            f"model={row['model']} version=1 previous=None reason={row['reason']}" in found.stderr
        )
    assert sum(row["promote"] for row in rows) >= 3
    told = [json.loads(body)["name"] for _, _, body in push_receiver.taken]
    assert told == [row["model"] for row in rows if row["promote"]]
    again = retrain(environment, "--min-jobs", "1", "--cooldown-s", "0", "--json", str(path))
    assert (again.exit_code, again.stdout) == (0, "0 models challenged\n")
    assert json.loads(path.read_text()) == []


def test_too_few_jobs_change_nothing(settings, environment):
    found = retrain(environment, "--min-jobs", "101")
    assert found.stdout == "0 models challenged\n"
    assert (
        Registry(settings.tracking_uri, settings.artifacts_path).versions("colocast-memory") == []
    )


def test_a_second_retrainer_is_refused(settings, environment):
    with only_one(settings.home / "retrain.lock"):
        found = retrain(environment)
    assert "another retrainer runs on" in str(found.exception)


def test_sigterm_ends_the_watch_cleanly(environment):
    words = [sys.executable, "-m", "pipelines", "retrain", "--min-jobs", "999", "--poll-s", "0.1"]
    with subprocess.Popen(
        words, env={**os.environ, **environment}, stderr=subprocess.PIPE, text=True
    ) as process:
        told = next(line for line in process.stderr if "event=" in line)
        process.send_signal(signal.SIGTERM)
        rest = process.stderr.read()
    assert "event=watching poll_s=0.1 min_jobs=999" in told
    assert (process.returncode, "Traceback" in rest) == (0, False), rest
