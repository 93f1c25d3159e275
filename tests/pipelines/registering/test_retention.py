from dataclasses import replace

import pandas as pd
import pytest
from click.testing import CliRunner

from data.domain import FinishedJob, Outcome
from data.errors import RegistryError
from data.joblog import JobLog
from pipelines.commands.prune import command
from pipelines.registering.lineage import lineage
from pipelines.registering.registered_version import RegisteredVersion
from pipelines.registering.registry import Registry
from pipelines.registering.report import Origin
from pipelines.registering.retention import RetentionRules, prunable, pruned
from tests.pipelines.retraining.test_challenge import REPORT, bundle

NAME = "colocast-memory"
RULES = RetentionRules(newest=1)


def listed(number, aliases=(), **tags):
    return RegisteredVersion(NAME, str(number), 0.0, None, None, tuple(aliases), tags=tags)


def test_only_old_versions_that_nothing_needs_may_go():
    versions = [
        listed(6), listed(5), listed(4, ["champion"]), listed(3, ["previous"]),
        listed(2, **{"colocast.keep": "for the audit of May"}), listed(1),
    ]  # fmt: skip
    found = prunable(versions, {f"{NAME}/5"}, RULES)
    assert [each.version for each in found] == ["1"]
    assert found[0].reason == "no alias, and not among the newest 1"


@pytest.fixture
def registry(settings):
    made = Registry(settings.tracking_uri, settings.artifacts_path)
    origin = Origin("memory", 1, {"memory_runs": pd.DataFrame({"run_id": ["r1"]})})
    for _ in range(3):
        made.register(bundle(NAME, 0.1), replace(REPORT, origin=origin))
    made.promote(NAME, "1")
    return made


def test_what_goes_leaves_its_run_with_all_numbers(registry):
    assert [each.version for each in pruned(registry, (), RULES, dry_run=True)] == ["2"]
    assert len(registry.versions(NAME)) == 3
    run_id = registry.run_of(NAME, "2")
    assert [each.version for each in pruned(registry, (), RULES)] == ["2"]
    assert [each.version for each in registry.versions(NAME)] == ["3", "1"]
    assert registry.run_tags(run_id)["colocast.pruned_version"] == "2"
    assert registry.load(NAME, "1").version == f"{NAME}/1"
    assert lineage(registry, NAME, "3").tables == {"memory_runs": ["r1"]}
    with pytest.raises(RegistryError, match="found no version '2'"):
        registry.load(NAME, "2")


def test_a_version_that_an_alias_needs_cannot_be_deleted(registry):
    with pytest.raises(RegistryError, match="found the alias champion, wanted none"):
        registry.delete(NAME, "1")


def test_the_command_keeps_what_decided_on_a_recent_job(settings, registry):
    job = FinishedJob(
        "1", 1, "ada", "q", "bert", 1, 0.0, 0.0, 4e9, Outcome.OK, model_version=f"{NAME}/2"
    )
    with JobLog(settings.joblog_url) as log:
        log.append([job])

    def prune(*words):
        found = CliRunner().invoke(command, words, env={"COLOCAST_HOME": str(settings.home)})
        assert found.exit_code == 0, found.output
        return found.output

    assert prune("--keep", "1", "--dry-run") == "0 versions would go\n"
    assert prune("--keep", "1", "--audit-days", "0") == "0 versions deleted\n"
    assert len(registry.versions(NAME)) == 3
