"""``colocast explain``: why a job was placed where it is."""

import json
import os
from pathlib import Path

import click

from data.settings import Settings


@click.command()
@click.argument("job_id")
@click.option("--json", "as_json", is_flag=True, help="The whole answer as JSON.")
def command(job_id: str, *, as_json: bool) -> None:
    """Say why a job was placed where it is: terms of the score, next best cards, why not others.

    Asks the running scheduler, on the port of COLOCAST_SCHEDULER_PORT.
    """
    from scheduler_client.explaining.asking import answer_of
    from scheduler_client.explaining.texts import placement_text

    settings = Settings.from_mapping(os.environ, Path.cwd())
    found = answer_of(settings.scheduler_port, f"/explain/{job_id}")
    click.echo(json.dumps(found, indent=1) if as_json else placement_text(found))
