"""``colocast models``: list registered versions, aliases and their metrics."""

import json
import os
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

import click

from data.domain import REGISTERED_MODELS
from data.settings import Settings

SHOWN_METRICS = 4


@click.command()
@click.option("--json", "json_path", type=click.Path(path_type=Path), help="Write all versions.")
def command(json_path: Path | None) -> None:
    """List every version of the five registered models, newest first."""
    from pipelines.registering.registry import Registry

    settings = Settings.from_mapping(os.environ, Path.cwd())
    registry = Registry(settings.tracking_uri, settings.artifacts_path)
    versions = [version for name in REGISTERED_MODELS for version in registry.versions(name)]
    for version in versions:
        created = datetime.fromtimestamp(version.created_time, UTC).strftime("%Y-%m-%d %H:%M")
        shown = sorted(version.metrics.items())[:SHOWN_METRICS]
        metrics = "  ".join(f"{name} {value:.3g}" for name, value in shown)
        aliases = ",".join(version.aliases) or "-"
        click.echo(f"{version.name:<26}{version.version:>4}  {created}  {aliases:<22}{metrics}")
    if not versions:
        click.echo("no registered versions; train one: colocast train all")
    if json_path is not None:
        rows = [{**asdict(version), "aliases": list(version.aliases)} for version in versions]
        json_path.write_text(json.dumps(rows, indent=2))
