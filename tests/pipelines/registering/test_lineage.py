import json

import pandas as pd
import pytest
from click.testing import CliRunner

from data.errors import RegistryError
from pipelines.commands.lineage import command
from pipelines.recipes import made
from pipelines.registering.lineage import lineage, remade, split_version
from pipelines.registering.origin import read_origin, row_ids, write_origin
from pipelines.registering.registry import Registry
from pipelines.registering.report import Origin

CLUSTER = "colocast-runtime-cluster"


@pytest.fixture
def registry(settings):
    return Registry(settings.tracking_uri, settings.artifacts_path)


@pytest.fixture
def version(registry, finished_jobs):
    bundle, report = made("runtime", {"jobs": finished_jobs(300)}, seed=3)[0]
    return registry.register(bundle, report)


def test_a_version_leads_back_to_its_run_its_rows_and_its_code(registry, version):
    found = lineage(registry, CLUSTER, version)
    assert found.version == f"{CLUSTER}/1"
    assert found.tables == {"jobs": [f"job-{i}/0" for i in range(300)]}
    assert found.run_id == registry.versions(CLUSTER)[0].run_id
    assert len(found.data_digest) == len(found.digest) == 64
    assert found.code_version.startswith("0.")
    assert (found.parent_run_id, found.previous_champion, found.cause) == (None, "none", "")


def test_the_recorded_rows_make_the_same_model_again(registry, version):
    again = remade(registry, CLUSTER, version)
    assert again.is_same
    assert again.largest_difference <= 1e-9
    assert again.rows > 512


def test_the_command_shows_it_and_writes_all_of_it(settings, version, tmp_path):
    path = tmp_path / "lineage.json"
    words = [f"{CLUSTER}/{version}", "--verify", "--json", str(path)]
    found = CliRunner().invoke(command, words, env={"COLOCAST_HOME": str(settings.home)})
    assert found.exit_code == 0, found.output
    assert "jobs              300 rows: job-0/0, job-1/0, job-2/0, ..." in found.output
    assert "trained again     the same model" in found.output
    assert json.loads(path.read_text())["verified"]["is_same"] is True


def test_another_model_is_told_apart(settings, registry, finished_jobs):
    bundle, _ = made("runtime", {"jobs": finished_jobs(300)}, seed=3)[0]
    _, other = made("runtime", {"jobs": finished_jobs(280, seed=5)}, seed=3)[0]
    version = registry.register(bundle, other)
    found = CliRunner().invoke(
        command, [f"{CLUSTER}/{version}", "--verify"], env={"COLOCAST_HOME": str(settings.home)}
    )
    assert found.exit_code == 3
    assert "another model" in found.output


def test_rows_that_were_changed_are_refused(tmp_path):
    write_origin(Origin("memory", 1, {"jobs": pd.DataFrame({"a": [1.0]})}), tmp_path / "t")
    assert read_origin(tmp_path / "t").tables["jobs"]["a"].tolist() == [1.0]
    pd.DataFrame({"a": [2.0]}).to_parquet(tmp_path / "t" / "jobs.parquet")
    with pytest.raises(RegistryError, match=r"jobs: found rows .*, wanted"):
        read_origin(tmp_path / "t")


def test_rows_that_are_not_there_are_named(tmp_path):
    with pytest.raises(RegistryError, match="wanted the training tables"):
        read_origin(tmp_path)


@pytest.mark.parametrize("text", ["colocast-memory", "/3", "colocast-memory/"])
def test_a_version_needs_its_name(text):
    with pytest.raises(RegistryError, match="wanted <name>/<version>"):
        split_version(text)


def test_rows_are_known_by_run_or_by_job_and_attempt():
    assert row_ids(pd.DataFrame({"run_id": ["r1", "r2"]})) == ["r1", "r2"]
