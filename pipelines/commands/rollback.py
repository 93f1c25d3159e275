"""``colocast rollback``: point the alias champion back at the previous version."""

import os
from pathlib import Path

import click

from data.domain import REGISTERED_MODELS
from data.settings import Settings


@click.command()
@click.argument("name", type=click.Choice(REGISTERED_MODELS))
def command(name: str) -> None:
    """Let champion and previous of the registered model NAME change places."""
    from pipelines.registering.push import push
    from pipelines.registering.registry import ROLLED_BACK, Registry

    settings = Settings.from_mapping(os.environ, Path.cwd())
    registry = Registry(settings.tracking_uri, settings.artifacts_path)
    former = registry.champion(name)
    champion = registry.rollback(name)
    if former is not None:
        registry.set_tags(name, former, {ROLLED_BACK: "by hand: colocast rollback"})
    push(os.environ, name, lambda line: click.echo(line, err=True))
    click.echo(f"{name}: champion {champion}, before {former or 'none'}")
