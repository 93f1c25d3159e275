"""``colocast promote``: point the alias champion at a version."""

import os
from pathlib import Path

import click

from data.domain import REGISTERED_MODELS
from data.settings import Settings


@click.command()
@click.argument("name", type=click.Choice(REGISTERED_MODELS))
@click.argument("version")
def command(name: str, version: str) -> None:
    """Make VERSION of the registered model NAME the champion; running services swap to it."""
    from pipelines.registering.push import push
    from pipelines.registering.registry import Registry

    settings = Settings.from_mapping(os.environ, Path.cwd())
    registry = Registry(settings.tracking_uri, settings.artifacts_path)
    former = registry.champion(name)
    registry.promote(name, version)
    push(os.environ, name, lambda line: click.echo(line, err=True))
    click.echo(f"{name}: champion {version}, before {former or 'none'}")
