"""``colocast why``: why a job waits, or where it runs."""

import json
import os
from pathlib import Path

import click

from data.settings import Settings


@click.command()
@click.argument("job_id")
@click.option("--json", "as_json", is_flag=True, help="The whole answer as JSON.")
def command(job_id: str, *, as_json: bool) -> None:
    """Say why a job waits: the reason with its numbers, what would help, and when it will start.

    Asks the running scheduler, on the port of COLOCAST_SCHEDULER_PORT.
    """
    from scheduler_client.explaining.asking import answer_of
    from scheduler_client.explaining.texts import why_text

    settings = Settings.from_mapping(os.environ, Path.cwd())
    found = answer_of(settings.scheduler_port, f"/why/{job_id}")
    click.echo(json.dumps(found, indent=1) if as_json else why_text(found))
