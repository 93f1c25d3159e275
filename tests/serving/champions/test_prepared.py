import shutil
import subprocess
import sys

import numpy as np
import pytest
import skops.io

from data.errors import BadModelError
from serving.champions import prepared
from serving.champions.files import write_facts
from serving.champions.prepared import PREPARED, compiled_bundle, prepared_bundle
from serving.champions.probing import probe_rows
from serving.forest.plain import PlainForest, read_forest, write_forest
from serving.inference.explain import forest_contributions
from tests.serving.structures import demand_bundle, memory_bundle

VERSION = "colocast-interference/1"


@pytest.fixture
def directory(versions, tmp_path):
    return shutil.copytree(versions["1"], tmp_path / "1")


@pytest.fixture
def here(monkeypatch):
    """Prepare in this process; return how often that was asked for."""
    asked = []

    def run(command, **options):
        asked.append(command)
        status = prepared.main(command[3:])
        return subprocess.CompletedProcess(command, status, "", "")

    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr("os.nice", lambda increment: 0)
    return asked


def test_prepared_version_answers_and_explains_as_the_estimator_does(directory, here):
    bundle, native = prepared_bundle(directory, VERSION), compiled_bundle(directory, VERSION)
    rows = probe_rows(bundle.spec)
    assert isinstance(bundle.estimator, PlainForest)
    for n in (1, 4, 5, len(rows)):
        np.testing.assert_allclose(bundle.predict(rows[:n]), native.predict(rows[:n]), atol=1e-12)
    assert forest_contributions(bundle, rows[0]) == forest_contributions(native, rows[0])


def test_forest_of_several_signals_is_prepared_too(tmp_path, here):
    bundle = demand_bundle()
    skops.io.dump(bundle.estimator, tmp_path / "model.skops")
    write_facts(bundle, tmp_path)
    found = prepared_bundle(tmp_path, "colocast-demand/1")
    rows = probe_rows(bundle.spec)
    assert isinstance(found.estimator, PlainForest)
    np.testing.assert_allclose(found.predict(rows), bundle.predict(rows), atol=1e-12)


def test_model_that_is_no_forest_is_read_here(tmp_path, here):
    bundle = memory_bundle()
    skops.io.dump(bundle.estimator, tmp_path / "model.skops")
    write_facts(bundle, tmp_path)
    rows = probe_rows(bundle.spec)[:5]
    found = prepared_bundle(tmp_path, "colocast-memory/1").predict(rows)
    assert found.tolist() == bundle.predict(rows).tolist()
    assert here == []


def test_version_is_prepared_once(directory, here):
    for _ in range(2):
        prepared_bundle(directory, VERSION)
    assert len(here) == 1


def test_damaged_preparation_is_made_anew(directory, here):
    prepared_bundle(directory, VERSION)
    path = directory / PREPARED
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)
    prepared_bundle(directory, VERSION)
    assert len(here) == 2
    assert read_forest(path).n_features_in_ == 52


def test_preparation_of_another_forest_is_refused(directory, here, versions):
    prepared_bundle(directory, VERSION)
    other = compiled_bundle(versions["2"], "colocast-interference/2")
    trees = [member.tree_ for member in other.estimator.estimators_]
    answers = read_forest(directory / PREPARED).answers
    write_forest(directory / PREPARED, trees, 52, answers)
    with pytest.raises(BadModelError):
        prepared_bundle(directory, VERSION)


def test_bad_version_is_refused_with_the_reason_that_the_other_process_found(versions, tmp_path):
    directory = shutil.copytree(versions["bad"], tmp_path / "bad")
    with pytest.raises(BadModelError, match="stored example"):
        prepared_bundle(directory, VERSION)
    assert not (directory / PREPARED).exists()


@pytest.mark.parametrize("status", [1, 73, -9])
def test_version_that_could_not_be_prepared_is_read_here(directory, monkeypatch, status):
    failed = subprocess.CompletedProcess([], status, "", "no space left")
    monkeypatch.setattr(subprocess, "run", lambda command, **options: failed)
    assert not isinstance(prepared_bundle(directory, VERSION).estimator, PlainForest)


def test_version_whose_reading_crashed_is_not_read_here(directory, monkeypatch):
    crashed = subprocess.CompletedProcess([], -11, "", "")
    monkeypatch.setattr(subprocess, "run", lambda command, **options: crashed)
    with pytest.raises(BadModelError, match="reading it ended the process by SIGSEGV"):
        prepared_bundle(directory, VERSION)


def test_full_disk_is_told_apart_from_a_bad_version(directory, here, monkeypatch, capsys):
    def full(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(prepared, "write_forest", full)
    assert not isinstance(prepared_bundle(directory, VERSION).estimator, PlainForest)
    assert "No space left" in capsys.readouterr().err


def test_prepared_version_needs_no_scikit_learn(directory, here):
    prepared_bundle(directory, VERSION)
    code = (
        "import sys; from pathlib import Path; import serving.state\n"
        "from serving.champions.prepared import prepared_bundle\n"
        f"prepared_bundle(Path({str(directory)!r}), {VERSION!r})\n"
        "print(sorted({'sklearn', 'skops', 'mlflow', 'scipy.stats'} & set(sys.modules)))"
    )
    import subprocess as real

    run = real.Popen([sys.executable, "-c", code], stdout=real.PIPE, text=True)
    assert run.communicate()[0].strip() == "[]"
