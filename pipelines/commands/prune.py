"""``colocast prune``: delete versions that no alias, no recent decision and nobody needs."""

import os
import time
from pathlib import Path

import click

from data.settings import Settings
from pipelines.commands.number_option import number_option


@click.command()
@click.option("--dry-run", is_flag=True, help="Only say what would go.")
@number_option("--keep", 5, "Newest versions of each model that stay in any case.", least=1)
@number_option(
    "--audit-days", 90.0, "A version that decided on a job which finished since then stays."
)
def command(keep: int, audit_days: float, *, dry_run: bool) -> None:
    """Delete files and training tables of versions that nothing needs; runs keep their numbers.

    A version stays if an alias points at it, if it is among the newest, if the job log says that
    it decided on a recent job, or if it has the tag colocast.keep. The retrainer does the same
    after each promotion. The job log itself is never pruned; Prometheus keeps raw telemetry by its
    own --storage.tsdb.retention.time.
    """
    from data.joblog import JobLog, tail
    from pipelines.registering.registry import Registry
    from pipelines.registering.retention import DAY_S, RetentionRules, decided_versions, pruned

    settings = Settings.from_mapping(os.environ, Path.cwd())
    registry = Registry(settings.tracking_uri, settings.artifacts_path)
    rules = RetentionRules(keep, audit_days * DAY_S)
    with JobLog(settings.joblog_url) as log:
        decided = decided_versions((job for _, job in tail(log, 0)), time.time() - rules.audit_s)
    gone = pruned(registry, decided, rules, dry_run=dry_run)
    for each in gone:
        click.echo(f"{each.name} {each.version}: {each.reason}")
    click.echo(f"{len(gone)} versions {'would go' if dry_run else 'deleted'}")
