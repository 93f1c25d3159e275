"""``colocast train``: train a model and register it."""

import os
from pathlib import Path

import click

from data.settings import Settings

MODELS = ("interference", "runtime", "memory", "demand")


@click.command()
@click.argument("model", type=click.Choice([*MODELS, "all"]))
@click.option(
    "--data",
    "data_path",
    type=click.Path(path_type=Path),
    help="Any path that `colocast import` reads; default: what was imported, else the sample.",
)
@click.option(
    "--promote/--no-promote",
    default=None,
    help="Make it the champion; default: only where there is none yet.",
)
@click.option("--missing", is_flag=True, help="Only models that have no champion.")
def command(model: str, data_path: Path | None, *, promote: bool | None, missing: bool) -> None:
    """Train MODEL, register it in MLflow with everything that led to it, and set its alias."""
    from tqdm import tqdm

    from pipelines.registering.push import push
    from pipelines.registering.registry import CHAMPION, Registry
    from pipelines.train import REGISTERED_NAMES, TRAINERS, registered

    settings = Settings.from_mapping(os.environ, Path.cwd())
    registry = Registry(settings.tracking_uri, settings.artifacts_path)
    asked: tuple[str, ...] = MODELS if model == "all" else (model,)
    if missing:
        asked = tuple(
            name for name in asked if any(not registry.champion(n) for n in REGISTERED_NAMES[name])
        )
    found = []
    with tqdm(asked, desc="training", unit="model", disable=not asked) as bar:
        for name in bar:
            bar.set_postfix_str(name)
            trained = TRAINERS[name](settings, data_path)
            found += registered(registry, trained, promote=promote)
    for version in found:
        click.echo(f"{version.name} {version.version} is {version.alias}")
    for version in found:  # what was registered is said first: a bad secret ends the command
        if version.alias == CHAMPION:
            push(os.environ, version.name, lambda line: click.echo(line, err=True))
